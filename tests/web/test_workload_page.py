"""What the pages show of a workload is what the service holds, on any screen, by any key."""

import httpx2
import pytest
from playwright.sync_api import expect

from tests.web.conftest import PUBLISHED, OpenPage

pytestmark = pytest.mark.browser


def test_whole_numbers_are_shown_in_full(empty_service: str, open_page: OpenPage) -> None:
    run = {"workload": "sized", "duration_seconds": 5, "work": {"dataset_size": 1_281_167}}
    httpx2.post(f"{empty_service}/v1/runs", json=run).raise_for_status()

    page = open_page(f"{empty_service}/workloads/sized")

    expect(page.locator("#runs tbody tr")).to_contain_text("1,281,167")


def test_list_tells_when_the_published_regressor_was_fitted(
    published_service: str, open_page: OpenPage
) -> None:
    runs = {"workload": "bare", "duration_seconds": 5}
    httpx2.post(f"{published_service}/v1/runs", json=runs).raise_for_status()
    detail = httpx2.get(f"{published_service}/v1/workloads/{PUBLISHED}").json()

    page = open_page(f"{published_service}/")

    fitted = page.locator(f"tr[data-name={PUBLISHED}] .fitted time")
    expect(fitted).to_have_attribute("datetime", detail["regressor"]["fitted_at"])
    expect(page.locator("tr[data-name=bare] .fitted")).to_have_text("–")  # noqa: RUF001 - shown so
