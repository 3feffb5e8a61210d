"""Amounts of any size and currency are drawn where they belong, and told in words of the page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, forecast_document

pytestmark = pytest.mark.browser

_PIXELS = (
    "value => [0, 1].map(index => echarts.getInstanceByDom(document.getElementById('curve-plot'))"
    ".convertToPixel({ xAxisIndex: index }, value))"
)
_DRAWN = (
    "echarts.getInstanceByDom(document.getElementById('front-plot')).getOption().series"
    ".flatMap(({ data }) => data.map(({ forecast }) => forecast.cost.currency))"
)


@pytest.fixture
def service_with_price_in_won(published_service: str) -> Iterator[str]:
    """Yield the URL of a service that has a price in a currency without a rate for one GPU type."""
    price = {
        "gpu_type": "T4",
        "gpu_count": 1,
        "instance_type": "hall.1",
        "provider": "own",
        "region": "hall",
        "price_per_hour": "9000000",
        "currency": "KRW",
        "purchase": "on_demand",
        "valid_from": "2026-01-01",
        "source": "a contract",
    }
    stored = patient_http.post(f"{published_service}/v1/prices", json=price)
    assert stored.status_code == 201, stored.text
    yield published_service
    price_id = stored.json()["prices"][0]["price_id"]
    patient_http.delete(f"{published_service}/v1/prices/{price_id}").raise_for_status()


@pytest.mark.parametrize("width", [1440, 320])
@pytest.mark.parametrize("price", ["90000000", "0.0000001"])
def test_cost_stands_below_the_duration_of_the_same_question(
    published_service: str, open_page: OpenPage, width: int, price: str
) -> None:
    question = f"gpu_type=T4&workers=8&price_per_hour={price}"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}", width=width)
    answer_of(page)
    expect(page.locator("#curve-plot svg path").first).to_be_attached()

    for workers in (1, 8, 32):
        above, below = page.evaluate(_PIXELS, workers)
        assert abs(above - below) < 1, (workers, above, below)


def test_chart_shows_amounts_of_one_currency_alone(
    service_with_price_in_won: str, open_page: OpenPage
) -> None:
    search = "gpu_type=V100-16GB&search.objective=duration"
    page = open_page(f"{service_with_price_in_won}/workloads/{PUBLISHED}?{search}")

    expect(page.locator("#front")).to_contain_text(
        "Not drawn: 6 configurations priced in KRW, for which no exchange rate to USD is known."
    )
    expect(page.locator("#front-plot svg path").first).to_be_attached()
    assert set(page.evaluate(_DRAWN)) == {"USD"}
    expect(page.locator("#front-plot")).to_have_attribute(
        "aria-label",
        "Cost against duration of 6 of 12 configurations, 6 of them on the Pareto"
        " front; the best are in the table below.",
    )


def test_missing_exchange_rate_is_helped_in_words_of_the_page(
    service_with_price_in_won: str, open_page: OpenPage
) -> None:
    page = open_page(f"{service_with_price_in_won}/workloads/{PUBLISHED}?gpu_type=T4&workers=2")

    remedy = page.locator("[data-code=currency_not_converted] .remedy")
    expect(remedy).to_have_text(
        "Enter your own price per hour under “Price, limits, confidence”, or have the exchange rate"
        " stored in the service."
    )


def test_remedies_that_name_routes_are_in_words_of_the_page(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=2&dataset_size=400000&batch_size=256&epochs=2"
    answer = forecast_document(published_service, question)
    codes = [
        "durations_shifted",
        "outliers_nearby",
        "price_unknown",
        "stale_exchange_rate",
        "stale_grid_factor",
        "stale_price",
    ]
    answer["warnings"] = [
        {"code": code, "message": "So it is.", "remedy": "Use the API."} for code in codes
    ]
    page = open_page(f"{published_service}/problems")
    page.route("**/forecast?*", lambda route: route.fulfill(json=answer))
    page.goto(f"{published_service}/workloads/{PUBLISHED}?{question}")

    remedies = page.locator("#answer .warning .remedy")
    expect(remedies).to_have_count(len(codes))
    expect(remedies.filter(has_text="Use the API.")).to_have_count(0)


def test_changes_that_a_search_needs_are_told_in_words_of_the_page(
    published_service: str, open_page: OpenPage
) -> None:
    changes: list[dict[str, object]] = [
        {"constraint": "pricing.currency", "asked": "USD", "needed": "KRW"},
        {"constraint": "budget", "asked": 0.0001, "needed": 1200},
        {"constraint": "energy.watts_per_worker", "asked": None, "needed": None},
        {"constraint": "energy.kg_co2e_per_kwh", "asked": None, "needed": None},
    ]

    def needing(route: Route) -> None:
        found = route.fetch()
        answer = found.json()
        nearest = {
            "forecast": answer["ranked"][0]["forecast"],
            "changes": [{"message": "Use the API.", **change} for change in changes],
        }
        route.fulfill(json={**answer, "ranked": [], "pareto": [], "nearest": nearest})

    page = open_page(f"{published_service}/problems")
    page.route("**/v1/recommendations", needing)
    page.goto(f"{published_service}/workloads/{PUBLISHED}?gpu_type=T4&workers=8")

    front = page.locator("#front")
    expect(front).to_contain_text("Its price is in KRW, and no exchange rate to USD is known.")
    expect(front).to_contain_text("The budget would have to be 1,200 KRW instead of 0.0001.")
    expect(front).to_contain_text("Its power is not known: upload runs that tell their energy")
    expect(front).to_contain_text("No grid factor is known for its place: name provider and region")
    expect(front).not_to_contain_text("Use the API.")
