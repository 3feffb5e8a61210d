"""The page shows and takes every number: nought, below it, and what is none."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.web.conftest import PUBLISHED, OpenPage, answer_of

pytestmark = pytest.mark.browser


@pytest.fixture
def service_with_free_hardware(published_service: str) -> Iterator[str]:
    """Yield the URL of a service where one GPU type of two costs nothing."""
    price = {"gpu_type": "T4", "price_per_hour": "0", "currency": "USD"}
    stored = httpx2.post(f"{published_service}/v1/prices", json=price)
    assert stored.status_code == 201, stored.text
    yield published_service
    price_id = stored.json()["prices"][0]["price_id"]
    httpx2.delete(f"{published_service}/v1/prices/{price_id}").raise_for_status()


def test_price_of_nought_is_drawn(published_service: str, open_page: OpenPage) -> None:
    question = "gpu_type=T4&workers=2&dataset_size=400000&batch_size=256&epochs=2&price_per_hour=0"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}")

    assert "cost about $0" in answer_of(page)
    expect(page.locator("#front")).to_contain_text("All of these cost nothing")
    expect(page.locator("#front-plot svg text", has_text="$")).to_have_text(["$0"])
    expect(page.locator("#curve-plot svg text", has_text="$")).to_have_text(["$0"])


def test_some_hardware_may_cost_nothing(
    service_with_free_hardware: str, open_page: OpenPage
) -> None:
    page = open_page(f"{service_with_free_hardware}/workloads/{PUBLISHED}")

    expect(page.locator("#front")).to_contain_text("The cheapest:")
    amounts = page.locator("#front-plot svg text", has_text="$")
    expect(amounts.filter(has_text="$0").first).to_be_attached()
    assert amounts.count() > 2
    expect(page.locator("#front")).not_to_contain_text("All of these cost nothing")
