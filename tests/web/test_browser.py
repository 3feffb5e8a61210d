"""People use the page in a real browser against the real service."""

import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.domain.access import Scope
from app.services.access import AccessService
from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database
from tests.support import patient_http
from tests.support.server import running_service
from tests.web.conftest import (
    MARKUP,
    PUBLISHED,
    OpenPage,
    answer_of,
    drop,
    measured_csv,
    upload_csv,
)

pytestmark = pytest.mark.browser


def _is_too_wide(page: Page) -> bool:
    too_wide: bool = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return too_wide


def test_newcomer_uploads_fits_and_asks(empty_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{empty_service}/")
    expect(page.locator(".empty")).to_contain_text("curl --data-binary @runs.csv")

    drop(page, "runs.csv", measured_csv("bert"))
    expect(page.locator("#upload-result")).to_contain_text("24 runs stored")
    page.locator("#workloads a", has_text="bert").click()
    page.get_by_role("button", name="Fit a regressor").click()

    expect(page.locator("#fit .note")).to_contain_text("Version 1 is published")
    assert "8 \u00d7 V100-16GB would take about" in answer_of(page)
    expect(page.locator("#curve-plot svg path").first).to_be_attached()
    expect(page.locator("#front-plot svg path").first).to_be_attached()
    expect(page.locator("#card")).to_contain_text("inside the measured range")
    # The name is markup: it stands there as text.
    expect(page.locator("#answer .lesson").first).to_contain_text(MARKUP)


def test_card_tells_the_seconds_by_which_starts_differ(
    empty_service: str, open_page: OpenPage
) -> None:
    chance = random.Random(0)
    sizes = [10.0 * 1.22**number for number in range(24) for _ in range(4)]
    runs = [
        {
            "workload": "hesitant",
            "work": {"dataset_size": size},
            "duration_seconds": size * chance.gauss(1.0, 0.02) + 6.0 * chance.random(),
        }
        for size in sizes
    ]
    patient_http.post(f"{empty_service}/v1/runs", json=runs).raise_for_status()
    page = open_page(f"{empty_service}/workloads/hesitant", width=390)

    page.get_by_role("button", name="Fit a regressor").click()

    card = page.locator("#card")
    expect(card).to_contain_text(re.compile(r"differ by [\d.]+% and [\d.]+ s among themselves"))
    expect(card).to_contain_text("The errors above are against the average of each")
    assert not _is_too_wide(page)


def test_page_reads_the_newest_runs_once(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")

    answer_of(page)
    expect(page.locator("#runs table")).to_be_visible()

    read = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert sum("/runs?" in url for url in read) == 1


def test_workload_without_a_regressor_says_what_to_do(
    published_service: str, open_page: OpenPage
) -> None:
    run = {"workload": "single", "duration_seconds": 5}
    patient_http.post(f"{published_service}/v1/runs", json=run)
    page = open_page(f"{published_service}/workloads/single", width=390)

    told = page.locator("#problem .empty")
    expect(told).to_contain_text("1 finished run stored. A fit takes seconds.")
    box, heading = told.bounding_box(), page.locator("#recent-title").bounding_box()
    assert box is not None
    assert heading is not None
    assert heading["y"] - (box["y"] + box["height"]) >= 16


def test_what_ifs_are_compared_side_by_side(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.locator("#add").click()

    page.get_by_label("GPU", exact=True).select_option("A100-40GB")
    page.get_by_label("Workers", exact=True).fill("16")
    page.get_by_role("button", name="Forecast").click()
    expect(page.locator("#answer .hardware")).to_have_text("16 \u00d7 A100-40GB")
    page.locator("#add").click()

    rows = page.locator("#comparison tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("transferred")
    expect(page.locator("#answer .warning").first).to_be_visible()
    assert "workers=16" in page.url
    page.reload()
    expect(page.locator("#answer .hardware")).to_have_text("16 \u00d7 A100-40GB")
    expect(rows).to_have_count(2)


def test_curve_and_search_follow_the_question(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.get_by_label("Along").select_option("dataset_size")
    expect(page.locator("#curve-plot[aria-label*='dataset size']")).to_be_visible()
    page.locator("#search").get_by_label("Look for the").select_option("duration")
    expect(page.locator("#front")).to_contain_text("The fastest:")
    page.locator("#search").get_by_label("Deadline (hours)").fill("0.001")
    expect(page.locator("#front")).to_contain_text("Nothing meets this.")


def test_nodes_follow_the_workers(empty_service: str, open_page: OpenPage) -> None:
    runs = [
        {
            "workload": "wide",
            "configuration": {"workers": workers, "nodes": nodes},
            "duration_seconds": 60 + 8000 / workers * (1.5 if nodes > 1 else 1),
        }
        for workers, nodes in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4))
    ]
    patient_http.post(f"{empty_service}/v1/runs", json=runs).raise_for_status()
    fits = f"{empty_service}/v1/workloads/wide/fits"
    patient_http.post(fits, headers={"Prefer": "wait=60"}).raise_for_status()
    page = open_page(f"{empty_service}/workloads/wide?workers=16&nodes=4")
    plot, nodes = page.locator("#curve-plot"), page.get_by_label("Nodes", exact=True)

    expect(plot).to_have_attribute("aria-label", re.compile("5 measured runs"))
    expect(nodes).to_have_value("4")
    page.get_by_label("Workers", exact=True).fill("8")
    page.keyboard.press("Tab")

    expect(nodes).to_have_value("")
    expect(page.locator("#answer .sentence")).to_contain_text(re.compile("^8 workers would"))
    expect(page.locator("#answer")).to_contain_text("this configuration was measured")


def test_search_counts_what_it_set_aside(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.get_by_label("only inside the measured range").check()

    # One to 32 workers of two GPU types; up to 8 were measured.
    expect(page.locator("#front")).to_contain_text(
        "12 configurations considered, 4 set aside: 4 beyond the measured range."
    )


def test_cheapest_is_marked_within_one_currency_alone(
    published_service: str, declare_currency: Callable[[str], None], open_page: OpenPage
) -> None:
    question = f"{published_service}/workloads/{PUBLISHED}?price_per_hour=3&gpu_type=T4&workers="
    page = open_page(f"{question}2")
    cheapest = page.locator("#comparison .mark", has_text="cheapest")
    for count in ("2", "4"):
        page.goto(f"{question}{count}")
        answer_of(page)
        page.locator("#add").click()
    expect(cheapest).to_have_count(1)

    declare_currency("EUR")
    page.goto(f"{question}8")
    assert "EUR" in answer_of(page)
    page.locator("#add").click()

    expect(page.locator("#comparison tbody tr")).to_have_count(3)
    expect(cheapest).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
def test_carbon_is_shown_where_a_grid_factor_is_known(
    factored_service: str, open_page: OpenPage, width: int
) -> None:
    page = open_page(f"{factored_service}/workloads/{PUBLISHED}", width=width)

    answer_of(page)
    page.locator("#add").click()
    page.locator("#search").get_by_label("Look for the").select_option("carbon")

    expect(page.locator("#answer .carbon")).to_contain_text("kg CO2e")
    expect(page.locator("#comparison")).to_contain_text("kg CO2e")
    expect(page.locator("#front")).to_contain_text("The least carbon:")
    expect(page.locator("#front table")).to_contain_text("kg CO2e")
    assert not _is_too_wide(page)


def test_unanswerable_question_shows_the_problem(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.get_by_label("dataset size", exact=True).fill("0")
    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#answer .problem")).to_contain_text("dataset_size")


def test_number_that_cannot_be_read_is_not_left_out(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    workers = page.locator("#what-if input[name=workers]")
    workers.fill("")
    workers.press_sequentially("8e")
    workers.press("Tab")

    problem = page.locator("#answer .problem")
    expect(problem).to_contain_text("is not a number")
    expect(problem).to_contain_text("Write digits")
    workers.fill("4")
    workers.press("Tab")
    assert answer_of(page).startswith("4 ")


def test_bad_rows_are_named_and_the_good_ones_can_be_stored(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/")

    drop(page, "mixed.csv", "workload,duration_seconds,workers\ngood,12.5,2\ngood,-3,2\n")
    result = page.locator("#upload-result")
    expect(result.locator(".problem")).to_contain_text("duration_seconds")
    expect(result.locator("tbody tr td").first).to_have_text("2")
    result.get_by_role("button", name="Store the good rows only").click()

    expect(result).to_contain_text("1 run stored")
    expect(result).to_contain_text("1 row left out")
    expect(page.locator("#workloads")).to_contain_text("good")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", f"/workloads/{PUBLISHED}"])
def test_phone_needs_no_sideways_scrolling(
    published_service: str, open_page: OpenPage, path: str, scheme: str
) -> None:
    page = open_page(f"{published_service}{path}", width=390, scheme=scheme)

    expect(page.locator(":is(#workloads, #runs) tbody tr").first).to_be_visible()
    page.wait_for_load_state("networkidle")

    assert not _is_too_wide(page)


def test_comparison_on_a_phone_scrolls_by_itself(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=390)

    answer_of(page)
    page.locator("#add").click()

    expect(page.locator("#comparison tbody tr")).to_have_count(1)
    assert not _is_too_wide(page)


def test_long_name_of_a_run_leaves_room_beside_it(empty_service: str, open_page: OpenPage) -> None:
    run = {"workload": "named", "external_id": "x" * 200, "duration_seconds": 5}
    patient_http.post(f"{empty_service}/v1/runs", json=run).raise_for_status()
    page = open_page(f"{empty_service}/workloads/named", width=390)

    name = page.locator("#runs .run-name")
    expect(name).to_have_attribute("title", re.compile("^x{200} . run_"))
    box = name.bounding_box()
    assert box is not None
    assert box["width"] < 390 / 2


def test_names_that_are_markup_stay_text(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")

    expect(page.locator("#runs tbody tr").first).to_contain_text(MARKUP)

    assert page.locator("main img").count() == 0


def test_unknown_workload_says_so(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/nobody")

    expect(page.locator("#problem .problem")).to_contain_text("Unknown workload")


def test_keyboard_reaches_the_forecast(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    workers = page.get_by_label("Workers", exact=True)
    workers.focus()
    workers.fill("3")
    page.keyboard.press("Enter")

    expect(page.locator("#answer .hardware")).to_contain_text("3 \u00d7")


def test_every_control_has_a_label(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, button')].filter((each) =>"
        " !each.labels?.length && !each.textContent.trim() && !each.ariaLabel)"
        ".map((each) => each.outerHTML)"
    )

    assert nameless == []


def test_filter_finds_workloads_that_are_not_listed_yet(
    empty_service: str, open_page: OpenPage
) -> None:
    lines = ["workload,duration_seconds", "oldest-net,1", *(f"net-{n},1" for n in range(120))]
    upload_csv(empty_service, "\n".join(lines))
    page = open_page(f"{empty_service}/")
    rows = page.locator("#workloads tbody tr:visible")
    expect(rows).to_have_count(100)

    page.get_by_label("Filter the workloads by name").fill("oldest")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("oldest-net")
    page.get_by_label("Filter the workloads by name").fill("nothing like it")

    expect(rows).to_have_count(0)
    expect(page.locator("#workloads")).to_contain_text("No workload has “nothing like it”")


@pytest.mark.parametrize("path", ["/", f"/workloads/{PUBLISHED}", "/workloads/none"])
def test_structure_is_told_to_screen_readers(
    path: str, published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}{path}")
    expect(page.locator("table, .problem").last).to_be_visible()

    levels = page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => Number(e.tagName[1]))"
    )
    headers = page.locator("th").evaluate_all("all => all.map(e => e.textContent.trim())")
    regions = page.locator("section[aria-labelledby], [role=region]").evaluate_all(
        "all => all.filter(e => e.checkVisibility()).map(e => e.getAttribute('aria-label')"
        " || document.getElementById(e.getAttribute('aria-labelledby')).textContent)"
    )

    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert "" not in headers
    assert len(regions) == len(set(regions))


def test_page_asks_for_the_key_and_keeps_it_in_the_tab(
    sqlite_template: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    url = f"sqlite:///{tmp_path / 'trainfare.db'}"
    (tmp_path / "trainfare.db").write_bytes(sqlite_template.read_bytes())
    database = Database(url)
    access = AccessService(ServiceContext(database, Settings(require_keys=True)))
    _, token = access.create_key("browser", [Scope.ADMIN])
    access.close()
    database.close()
    with running_service(url, require_keys=True) as service:
        page = open_page(f"{service.url}/")
        page.locator("#key-input").fill("wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#key-note")).to_contain_text("did not accept")
        page.locator("#key-input").fill(token)
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator(".empty")).to_contain_text("Authorization: Bearer KEY")

        page.reload()

        expect(page.locator(".empty")).to_be_visible()
        expect(page.locator("#key-dialog")).to_be_hidden()
        assert page.evaluate("localStorage.length") == 0
