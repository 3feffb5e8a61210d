"""Clicks and answers that come together, late or out of order leave no wrong page behind."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.conftest import (
    PUBLISHED,
    OpenPage,
    answer_of,
    answer_with_a_key,
    drop,
    publish,
    upload_csv,
)

pytestmark = pytest.mark.browser
_CLICK_TWICE = "(button) => { button.click(); button.click(); }"


def _hold(page: Page, *urls: str) -> list[Route]:
    """Return the first request to each URL, which waits until the test lets it continue."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for url in urls:
        page.route(url, hold, times=1)
    return held


def _delay(page: Page, url: str) -> list[Callable[[], None]]:
    """Return how to send the answer to the first request to a URL, which is made at once."""
    answers: list[Callable[[], None]] = []

    def delay(route: Route) -> None:
        answer = route.fetch()
        answers.append(lambda: route.fulfill(response=answer))

    page.route(url, delay, times=1)
    return answers


def test_page_of_runs_that_is_asked_for_twice_is_listed_once(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    rows = page.locator("#runs tbody tr")
    expect(rows).to_have_count(10)

    with (
        page.expect_response("**/runs?*page_token=*"),
        page.expect_response("**/runs?*page_token=*"),
    ):
        page.get_by_role("button", name="Show more").evaluate(_CLICK_TWICE)

    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    expect(rows).to_have_count(24)


def test_page_of_workloads_that_is_asked_for_twice_is_listed_once(
    empty_service: str, open_page: OpenPage
) -> None:
    lines = ["workload,duration_seconds", *(f"net-{number},1" for number in range(120))]
    upload_csv(empty_service, "\n".join(lines))
    page = open_page(f"{empty_service}/")
    rows = page.locator("#workloads tbody tr")
    expect(rows).to_have_count(100)

    page.get_by_role("button", name="Show more").evaluate(_CLICK_TWICE)

    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    expect(rows).to_have_count(120)


def test_charts_of_the_question_before_do_not_come_after_one_without_an_answer(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    expect(page.locator("#curve-plot svg")).to_be_visible()
    expect(page.locator("#front-plot svg")).to_be_visible()
    held = _hold(page, "**/curve?*", "**/v1/recommendations")
    with page.expect_request("**/curve?*"), page.expect_request("**/v1/recommendations"):
        page.get_by_role("button", name="Forecast").click()

    page.get_by_label("dataset size", exact=True).fill("-1")
    page.get_by_role("button", name="Forecast").click()
    expect(page.locator("#answer .problem")).to_contain_text("dataset size")
    for route in held:
        route.continue_()
    page.wait_for_load_state("networkidle")

    expect(page.locator("#curve")).to_have_text("Drawn once the question above is answered.")
    expect(page.locator("#front")).to_have_text("Drawn once the question above is answered.")


def test_result_of_an_upload_stays_beside_that_of_a_later_one(
    empty_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{empty_service}/")
    held = _hold(page, "**/v1/runs")
    with page.expect_request("**/v1/runs"):
        drop(page, "one.csv", "workload,duration_seconds\nslow,1\n")

    drop(page, "two.csv", "workload,duration_seconds\nfast,-1\n")
    expect(page.locator("#upload-result .problem")).to_contain_text("1 of 1 row ")
    held[0].continue_()

    expect(page.locator("#upload-result")).to_contain_text("one.csv: 1 new run.")
    expect(page.locator("#upload-result .problem")).to_contain_text("1 of 1 row ")


_RUNS = [
    {
        "workload": "net",
        "duration_seconds": 100.0 / workers + workers,
        "configuration": {"gpu_type": gpu_type, "instance_type": "own-box", "workers": workers},
    }
    for gpu_type in ("T4", "V100-16GB")
    for workers in (1, 2, 4, 8)
]


def test_card_of_the_regressor_before_does_not_come_after_that_of_the_present_one(
    empty_service: str, open_page: OpenPage
) -> None:
    publish(empty_service, _RUNS)
    publish(empty_service, _RUNS)
    page = open_page(f"{empty_service}/workloads/net")
    origin = page.locator("#card > p").last
    expect(origin).to_contain_text("Version 2")
    late_answers = _delay(page, "**/net/regressors?*")
    page.get_by_text("2 versions").click()
    page.get_by_role("button", name="Publish version 1").click()
    expect(page.locator("#facts")).to_contain_text("version 1")

    page.get_by_role("button", name="Fit again").click()
    expect(origin).to_contain_text("Version 3")
    for answer in late_answers:
        answer()
    page.wait_for_load_state("networkidle")

    expect(origin).to_contain_text("Version 3")


def test_prices_of_the_gpu_before_are_not_suggested_for_the_present_one(
    empty_service: str, open_page: OpenPage
) -> None:
    publish(empty_service, _RUNS)
    page = open_page(f"{empty_service}/workloads/net")
    answer_of(page)
    late_answers = _delay(page, "**/v1/prices?gpu_type=V100*")
    gpu = page.get_by_label("GPU", exact=True)
    gpu.select_option("V100-16GB")
    with page.expect_response("**/v1/prices?gpu_type=T4*"):
        gpu.select_option("T4")
    suggested = page.locator("datalist#instances option[value='g4dn.xlarge']")
    expect(suggested).to_be_attached()

    for answer in late_answers:
        answer()
    page.wait_for_load_state("networkidle")

    expect(suggested).to_be_attached()
    expect(page.locator("datalist#instances option[value='own-box']")).to_be_attached()


def test_list_of_workloads_before_does_not_come_after_the_present_one(
    empty_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{empty_service}/")
    rows = page.locator("#workloads tbody tr")
    late_answers = _delay(page, "**/v1/workloads?*")
    for name in ("one", "two"):
        row = f"workload,duration_seconds\n{name},1\n".encode()
        page.set_input_files(
            "#file", {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": row}
        )
        expect(page.locator("#upload-result")).to_contain_text(f"{name}.csv: 1 new run.")
    expect(rows).to_have_count(2)

    for answer in late_answers:
        answer()
    page.wait_for_load_state("networkidle")

    expect(rows).to_have_count(2)


def test_refusal_that_is_older_than_the_key_does_not_ask_for_another(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/problems")
    page.route("**/v1/**", answer_with_a_key)
    held = _hold(page, "**/runs?*")
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    page.locator("#key-input").fill("tf_typed")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#facts")).to_contain_text("24 runs")

    held[0].fulfill(status=401, body="{}")

    answer_of(page)
    expect(page.locator("#key-dialog")).to_be_hidden()
