"""What the pages show of a workload is what the service holds, on any screen, by any key."""

import gzip
import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, drop, publish

pytestmark = pytest.mark.browser
LONG_GPU = "own-accelerator-of-the-laboratory-with-a-name-that-never-ends-48GB"


def _exclude(service: str, run_ids: list[str], *, excluded: bool) -> None:
    change = {"excluded": excluded, "reason": "a neighbour was noisy" if excluded else None}
    for run_id in run_ids:
        patient_http.patch(f"{service}/v1/runs/{run_id}", json=change).raise_for_status()


def _newest_runs(service: str, count: int) -> list[str]:
    listed = patient_http.get(f"{service}/v1/workloads/{PUBLISHED}/runs?page_size={count}")
    return [run["run_id"] for run in listed.json()["runs"]]


@pytest.fixture(params=[1, 11])
def service_with_excluded_runs(
    published_service: str, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Yield the URL of a service whose newest runs are left out of fits: some, or a page full."""
    newest = _newest_runs(published_service, request.param)
    _exclude(published_service, newest, excluded=True)
    yield published_service
    _exclude(published_service, newest, excluded=False)


@pytest.fixture
def service_with_a_long_name(published_service: str) -> str:
    """Return the URL of a service that has a regressor of a GPU with a long name."""
    runs = [
        {
            "workload": "own",
            "configuration": {"gpu_type": LONG_GPU, "workers": workers},
            "work": {"dataset_size": size},
            "duration_seconds": 20 + size / workers / 100,
        }
        for workers in (1, 2, 4)
        for size in (1e5, 2e5, 4e5)
    ]
    publish(published_service, runs)
    return published_service


def test_runs_are_shown_in_full_and_counted(empty_service: str, open_page: OpenPage) -> None:
    run = {"workload": "sized", "duration_seconds": 5, "work": {"dataset_size": 1_281_167}}
    runs = [{**run, "status": "out_of_memory"}, {**run, "parameters": {"precision": "fp16"}}]
    patient_http.post(f"{empty_service}/v1/runs", json=runs).raise_for_status()

    page = open_page(f"{empty_service}/workloads/sized")

    rows = page.locator("#runs tbody tr")
    expect(rows.filter(has_text="dataset size 1,281,167")).to_have_count(2)
    expect(rows.filter(has_text="precision fp16")).to_contain_text("succeeded")
    expect(rows.filter(has_text="out of memory")).to_have_count(1)
    expect(page.locator("#facts")).to_contain_text("2 runs")
    page.goto(f"{empty_service}/")
    expect(page.locator("tr[data-name=sized] .number").first).to_have_text("1 +1")


def test_configuration_of_a_run_is_asked_about_once_that_can_be_answered(
    empty_service: str, open_page: OpenPage
) -> None:
    run = {"workload": "asked", "duration_seconds": 5}
    patient_http.post(f"{empty_service}/v1/runs", json=run).raise_for_status()
    page = open_page(f"{empty_service}/workloads/asked")
    buttons = page.get_by_role("button", name="Ask about the configuration")
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    expect(buttons).to_have_count(0)

    publish(empty_service, [run])
    page.reload()

    answer_of(page)
    expect(buttons).to_have_count(2)


def test_first_answer_that_takes_its_time_is_announced(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/")
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)

    page.route("**/forecast?*", hold)
    with page.expect_request("**/forecast?*"):
        page.goto(f"{published_service}/workloads/{PUBLISHED}")
    wheel = "(answer) => getComputedStyle(answer, '::before').display"

    assert page.locator("#answer").evaluate(wheel) == "inline-block"

    for route in asked:
        route.continue_()
    answer_of(page)
    assert page.locator("#answer").evaluate(wheel) != "inline-block"


def test_list_tells_when_the_published_regressor_was_fitted_and_how_well(
    published_service: str, open_page: OpenPage
) -> None:
    runs = {"workload": "bare", "duration_seconds": 5}
    patient_http.post(f"{published_service}/v1/runs", json=runs).raise_for_status()
    detail = patient_http.get(f"{published_service}/v1/workloads/{PUBLISHED}").json()

    page = open_page(f"{published_service}/")

    fitted = page.locator(f"tr[data-name={PUBLISHED}] .fitted time")
    expect(fitted).to_have_attribute("datetime", detail["regressor"]["fitted_at"])
    error = float(f"{detail['regressor']['accuracy']['interpolation'] * 100:.2g}")
    expect(page.locator(f"tr[data-name={PUBLISHED}] .accuracy")).to_have_text(f"{error:g}%")
    expect(page.locator("tr[data-name=bare] .fitted")).to_have_text("–")  # noqa: RUF001 - shown so


def test_first_question_is_about_a_run_that_fits_may_use(
    service_with_excluded_runs: str, open_page: OpenPage
) -> None:
    runs = patient_http.get(
        f"{service_with_excluded_runs}/v1/workloads/{PUBLISHED}/runs?excluded=false&page_size=1"
    ).json()["runs"]

    page = open_page(f"{service_with_excluded_runs}/workloads/{PUBLISHED}")

    answer_of(page)
    expect(page.locator("#runs tbody tr").first).to_contain_text("left out of fits")
    [asked] = runs
    expect(page.locator("#question [name=gpu_type]")).to_have_value(
        asked["configuration"]["gpu_type"]
    )
    for name, value in (
        ("workers", asked["configuration"]["workers"]),
        ("dataset_size", asked["work"]["dataset_size"]),
    ):
        expect(page.locator(f"#question [name={name}]")).to_have_value(str(int(value)))


def test_badge_follows_requests_that_fail_and_succeed(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    badge = page.locator("#readiness")
    expect(badge).to_have_attribute("data-state", "ready")
    page.wait_for_load_state("networkidle")

    page.context.set_offline(True)
    page.locator("#question [name=workers]").fill("4")
    page.keyboard.press("Enter")
    expect(page.locator("#answer .problem")).to_contain_text("does not answer")

    expect(badge).to_have_attribute("data-state", "down")

    page.context.set_offline(False)
    page.locator("#question [name=workers]").fill("2")
    page.keyboard.press("Enter")
    answer_of(page)

    expect(badge).to_have_attribute("data-state", "ready")


@pytest.mark.parametrize("width", [390, 1440])
def test_long_name_of_a_gpu_needs_no_sideways_scrolling(
    service_with_a_long_name: str, open_page: OpenPage, width: int
) -> None:
    page = open_page(f"{service_with_a_long_name}/workloads/own", width=width)

    assert LONG_GPU in answer_of(page)
    expect(page.locator("#front strong").first).to_be_visible()
    page.wait_for_load_state("networkidle")

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_duration_of_the_best_stands_on_one_line(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=390)
    figures = page.locator("#front .big span")
    expect(figures.first).to_be_visible()

    for width in range(320, 440, 10):
        page.set_viewport_size({"width": width, "height": 900})
        assert figures.first.evaluate("(figure) => figure.getClientRects().length") == 1


def test_what_ifs_can_be_removed_without_scrolling(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=390)
    answer_of(page)
    page.locator("#add").click()

    table = page.locator("#comparison .table-scroll")
    button, frame = table.locator("button.remove").bounding_box(), table.bounding_box()
    assert button is not None
    assert frame is not None
    assert button["x"] + button["width"] <= frame["x"] + frame["width"]


def test_shown_time_limit_is_no_shorter_than_the_safe_one(
    published_service: str, open_page: OpenPage
) -> None:
    seconds = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    for size in (16_000_000, 16_500_000, 17_000_000, 17_500_000):
        question = f"gpu_type=T4&workers=1&dataset_size={size}&batch_size=256&epochs=2"
        page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}")
        facts = page.locator("#answer .facts-list > div")
        limit = facts.filter(has_text="Safe time limit").locator("dd span")
        words = limit.inner_text().split()
        told = sum(int(n) * seconds[unit] for n, unit in zip(*[iter(words)] * 2, strict=True))

        exact = int((limit.get_attribute("title") or "").removesuffix(" seconds"))
        assert exact <= told < exact + 3600


def test_chance_is_told_without_an_exponent_and_not_as_certain(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=1&dataset_size=400000&batch_size=256&epochs=2"
    asked = f"{published_service}/v1/workloads/{PUBLISHED}/forecast?{question}"
    odds = {"deadline": 2e-7, "budget": 0.99997}
    parts = [{"term": "compute", "share": 1.0}, {"term": "setup", "share": 3e-9}]
    told = {"probability": odds, "explanation": parts}
    unlikely = {**patient_http.get(asked).json(), **told}
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}")
    answer_of(page)
    page.route("**/forecast?*", lambda route: route.fulfill(json=unlikely))
    page.get_by_role("button", name="Forecast").click()

    facts = page.locator("#answer .facts-list > div")
    expect(facts.filter(has_text="Ends in time").locator("dd")).to_have_text("under 0.01%")
    expect(facts.filter(has_text="Keeps the budget").locator("dd")).to_have_text("over 99.99%")
    expect(facts.filter(has_text="Where the time goes")).to_contain_text("setup under 0.01%")


@pytest.mark.parametrize("width", [390, 1440])
def test_share_of_bands_that_held_stays_inside_its_column(
    published_service: str, open_page: OpenPage, width: int
) -> None:
    versions = f"{published_service}/v1/workloads/{PUBLISHED}/regressors"
    told = patient_http.get(versions).json()
    for regressor in told["regressors"]:
        regressor["coverage"] = {"0.8": 0.9917, "0.9": 0.9976}
    page = open_page(f"{published_service}/", width=width)
    page.route("**/regressors?*", lambda route: route.fulfill(json=told))
    page.goto(f"{published_service}/workloads/{PUBLISHED}")

    figure = page.locator("#card .figure").filter(has_text="held 99.76%")
    expect(figure).to_be_visible()

    assert figure.evaluate("(element) => element.scrollWidth <= element.clientWidth")


def test_newest_versions_are_not_told_to_be_all(
    published_service: str, open_page: OpenPage
) -> None:
    versions = f"{published_service}/v1/workloads/{PUBLISHED}/regressors"
    told = patient_http.get(versions).json()
    page = open_page(f"{published_service}/")
    page.route(
        "**/regressors?*", lambda route: route.fulfill(json={**told, "next_page_token": "1"})
    )
    page.goto(f"{published_service}/workloads/{PUBLISHED}")

    count = len(told["regressors"])
    expect(page.get_by_text(f"the newest {count} versions", exact=True)).to_be_visible()


def test_good_rows_are_not_offered_where_all_are_bad(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/")

    drop(page, "bad.csv", "workload,duration_seconds\n" + "bad,8m\n" * 60)

    expect(page.locator("#upload-result .problem")).to_contain_text("60 of 60 rows are invalid")
    expect(page.locator("#upload-result .faults")).to_contain_text("… and 10 more.")
    expect(page.locator("#upload-result button")).to_have_count(0)


def test_packed_file_is_read_by_its_name(empty_service: str, open_page: OpenPage) -> None:
    row = {"workload": "packed", "external_id": "a", "duration_seconds": 5}
    text = "".join(json.dumps({**row, "external_id": name}) + "\n" for name in ("a", "b", "c"))
    patient_http.post(f"{empty_service}/v1/runs", json=row).raise_for_status()
    page = open_page(f"{empty_service}/")

    packed = gzip.compress(text.encode())
    page.set_input_files("#file", {"name": "runs.NDJSON.gz", "mimeType": "", "buffer": packed})

    told = page.locator("#upload-result")
    expect(told).to_contain_text("runs.NDJSON.gz: 2 new runs, 1 run known already.")


def test_file_of_another_type_than_its_name_says_is_told_to_be_renamed(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/")

    drop(page, "runs.csv", '[{"workload": "named", "duration_seconds": 5}]')

    problem = page.locator("#upload-result .problem")
    expect(problem).to_contain_text("The body is JSON")
    expect(problem.locator(".remedy")).to_contain_text("name says how it is read: .csv, .json")


def test_phone_shows_what_is_wrong_with_a_row_without_scrolling(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/", width=390)

    drop(page, "bad.csv", "workload,duration_seconds\nbad,8m\nbad,0:10\n")

    faults = page.locator("#upload-result .table-scroll")
    expect(faults).to_contain_text("Send seconds as a plain number")
    assert faults.evaluate("(region) => region.scrollWidth <= region.clientWidth")


def test_failure_of_the_last_fit_is_still_told_later(
    published_service: str, open_page: OpenPage
) -> None:
    workload = f"{published_service}/v1/workloads/refused"
    run = {"workload": "refused", "duration_seconds": 5}
    patient_http.post(f"{published_service}/v1/runs", json=run).raise_for_status()
    wait = {"Prefer": "wait=60"}
    asked = {"regressors": ["boosted_trees"]}
    fit = patient_http.post(f"{workload}/fits", json=asked, headers=wait).json()
    assert fit["state"] == "failed"

    page = open_page(f"{published_service}/workloads/refused")

    expect(page.locator("#fit .problem")).to_contain_text("The fit failed")
    expect(page.locator("#fit .problem")).to_contain_text(fit["problem"]["detail"])
    expect(page.get_by_role("button", name="Fit a regressor")).to_be_enabled()


def test_runs_are_downloaded_even_by_a_browser_that_takes_its_time(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.evaluate(
        "() => { window.revoked = []; URL.revokeObjectURL = (url) => window.revoked.push(url); }"
    )

    with page.expect_download() as begun:
        page.get_by_role("button", name="Download all as CSV").click()

    assert begun.value.suggested_filename == f"{PUBLISHED}-runs.csv"
    assert begun.value.path().read_text().startswith("workload,external_id,")
    # Safari reads the file in a later task than the click.
    assert page.evaluate("window.revoked") == []


def test_fit_is_followed_although_requests_are_lost(
    empty_service: str, open_page: OpenPage
) -> None:
    run = {"workload": "carried", "duration_seconds": 5}
    patient_http.post(f"{empty_service}/v1/runs", json=run).raise_for_status()
    page = open_page(f"{empty_service}/workloads/carried", width=390)
    button = page.get_by_role("button", name="Fit a regressor")
    expect(button).to_be_visible()
    lost: list[str] = []

    def lose_three(route: Route) -> None:
        if len(lost) == 3:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort()

    page.route("**/v1/fits/*", lose_three)
    button.click()

    expect(page.locator("#fit .note")).to_contain_text("Version 1 is published")
    assert len(lost) == 3
