"""The page works where the browser lets it store nothing, as Safari does without cookies."""

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import PUBLISHED, OpenPage, answer_of, answer_with_a_key

pytestmark = pytest.mark.browser

_REFUSE_STORAGE = (
    "Object.defineProperty(window, 'sessionStorage',"
    " { get() { throw new DOMException('The operation is insecure.', 'SecurityError'); } })"
)


@pytest.fixture
def page_without_storage(published_service: str, open_page: OpenPage) -> Page:
    page = open_page(f"{published_service}/problems")
    page.add_init_script(_REFUSE_STORAGE)
    return page


def test_what_ifs_are_compared_without_storage(
    published_service: str, page_without_storage: Page
) -> None:
    page = page_without_storage
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.locator("#add").click()

    expect(page.locator("#comparison tbody tr")).to_have_count(1)


def test_key_is_kept_and_forgotten_without_storage(
    published_service: str, page_without_storage: Page
) -> None:
    page = page_without_storage
    page.route("**/v1/**", answer_with_a_key)
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    page.locator("#key-input").fill("tf_typed")
    page.get_by_role("button", name="Use this key").click()
    answer_of(page)
    page.get_by_role("button", name="Forecast").click()
    expect(page.locator("#answer .curl code")).to_contain_text("Authorization: Bearer KEY")
    expect(page.locator("#key-dialog")).to_be_hidden()

    page.get_by_role("button", name="Forget the API key").click()

    expect(page.locator("#key-dialog")).to_be_visible()


def test_what_a_forgotten_key_was_told_is_not_compared(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/problems")
    page.route("**/v1/**", answer_with_a_key)
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    for _ in range(2):
        page.locator("#key-input").fill("tf_typed")
        page.get_by_role("button", name="Use this key").click()
        answer_of(page)
        expect(page.locator("#comparison tbody tr")).to_have_count(0)
        page.locator("#add").click()
        expect(page.locator("#comparison tbody tr")).to_have_count(1)

        page.get_by_role("button", name="Forget the API key").click()
