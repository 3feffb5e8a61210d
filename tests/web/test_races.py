"""Clicks and answers that come together, late or out of order leave no wrong page behind."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of

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
    stored = patient_http.post(
        f"{empty_service}/v1/runs", content="\n".join(lines), headers={"Content-Type": "text/csv"}
    )
    assert stored.status_code == 201, stored.text
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
    row = b"workload,duration_seconds\nslow,1\n"
    with page.expect_request("**/v1/runs"):
        page.set_input_files("#file", {"name": "one.csv", "mimeType": "text/csv", "buffer": row})

    bad = b"workload,duration_seconds\nfast,-1\n"
    page.set_input_files("#file", {"name": "two.csv", "mimeType": "text/csv", "buffer": bad})
    expect(page.locator("#upload-result .problem")).to_contain_text("1 of 1 rows")
    held[0].continue_()

    expect(page.locator("#upload-result")).to_contain_text("one.csv: 1 new run.")
    expect(page.locator("#upload-result .problem")).to_contain_text("1 of 1 rows")
