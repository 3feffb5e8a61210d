"""A page that Back or Forward brings back as it was left tells what holds now."""

import pytest
from playwright.sync_api import Page, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, answer_with_a_key

pytestmark = pytest.mark.browser


def _return_to(page: Page) -> None:
    """Tell the page what browsers tell one that they kept; Playwright's Chromium keeps none."""
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")


def test_list_shows_what_was_uploaded_since(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/")
    expect(page.locator(f"tr[data-name={PUBLISHED}]")).to_be_visible()
    run = {"workload": "later", "duration_seconds": 5}
    patient_http.post(f"{published_service}/v1/runs", json=run).raise_for_status()

    _return_to(page)

    expect(page.locator("tr[data-name=later]")).to_be_visible()


def test_question_whose_requests_were_lost_is_asked_again(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/v1/**", lambda route: route.abort())
    page.reload()
    expect(page.locator("#problem .problem")).to_contain_text("does not answer")
    page.unroute("**/v1/**")

    _return_to(page)

    answer_of(page)
    expect(page.locator(".problem")).to_have_count(0)
    expect(page.locator("#runs tbody tr").first).to_be_visible()
    expect(page.get_by_role("button", name="Fit again")).to_be_visible()


def test_what_a_forgotten_key_has_shown_does_not_come_back(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/problems")
    page.route("**/v1/**", answer_with_a_key)
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    page.locator("#key-input").fill("tf_typed")
    page.get_by_role("button", name="Use this key").click()
    answer_of(page)

    page.evaluate("sessionStorage.clear()")
    _return_to(page)

    expect(page.locator("#key-dialog")).to_be_visible()
    expect(page.locator("#what-if")).to_be_hidden()
    expect(page.locator("#runs tbody tr")).to_have_count(0)
