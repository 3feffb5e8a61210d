"""The page claims of fits and comparisons only what is so."""

import pytest
from playwright.sync_api import Page, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of

pytestmark = pytest.mark.browser


def _compare(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"#question [name={name}]").fill(value)
    rows = page.locator("#comparison tbody tr")
    before = rows.count()
    with page.expect_response("**/forecast?*"):
        page.get_by_role("button", name="Forecast").click()
    expect(page.locator("#answer")).to_contain_text(f"at ${fields['price_per_hour']}")
    expect(page.locator("#answer .hardware")).to_contain_text(f"{fields['workers']} ")
    page.get_by_role("button", name="Add to comparison").click()
    expect(rows).to_have_count(before + 1)


def test_fit_that_was_not_to_be_published_is_not_called_worse(
    published_service: str, open_page: OpenPage
) -> None:
    fits = f"{published_service}/v1/workloads/{PUBLISHED}/fits"
    asked = {"regressors": ["log_linear"], "publish": "never"}
    fit = patient_http.post(fits, json=asked, headers={"Prefer": "wait=60"}).json()
    assert fit["published"] is False
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/fits", lambda route: route.fulfill(status=202, json=fit))

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#fit .note")).to_contain_text("not published: as asked")


def test_regressor_that_is_not_published_is_not_called_unfitted(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [{"workload": "tried", "duration_seconds": 5 + noise} for noise in range(4)]
    patient_http.post(f"{empty_service}/v1/runs", json=runs).raise_for_status()
    fits = f"{empty_service}/v1/workloads/tried/fits"
    asked = {"regressors": ["log_linear"], "publish": "never"}
    fit = patient_http.post(fits, json=asked, headers={"Prefer": "wait=60"}).json()
    assert (fit["state"], fit["published"]) == ("succeeded", False)

    page = open_page(f"{empty_service}/workloads/tried")

    expect(page.locator("#problem")).to_contain_text("No regressor is published yet")
    expect(page.locator("#facts")).to_contain_text("no regressor published yet")
    page.goto(f"{empty_service}/")
    expect(page.locator("tr[data-name=tried]")).to_contain_text("none published yet")


def test_forecasts_that_are_equal_are_not_called_faster_or_dearer(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=1&dataset_size=400000&batch_size=256&epochs=2"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}&price_per_hour=0")
    answer_of(page)
    last = page.locator("#comparison tbody tr").last

    _compare(page, workers="1", price_per_hour="0")
    _compare(page, workers="2", price_per_hour="0")
    expect(last).to_contain_text("faster")
    expect(last).to_contain_text("costs the same")
    _compare(page, workers="1", price_per_hour="2")

    expect(last).to_contain_text("as fast")
    expect(last).to_contain_text("costs $1.13 more")


def test_bands_of_several_confidences_are_told_apart(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=1&dataset_size=400000&batch_size=256&epochs=2"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}")
    rows = page.locator("#comparison tbody tr")
    answer_of(page)
    page.locator("#add").click()
    expect(rows.first).not_to_contain_text("confidence")

    page.goto(f"{published_service}/workloads/{PUBLISHED}?{question}&confidence=0.5")
    answer_of(page)
    page.locator("#add").click()

    expect(rows).to_contain_text(["confidence 90%", "confidence 50%"])
    expect(rows.first).not_to_contain_text("version")


def test_price_names_all_machines_and_what_it_was_converted_from(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=V100-16GB&workers=9&dataset_size=400000&batch_size=256&epochs=2"
    asked = f"{published_service}/v1/workloads/{PUBLISHED}/forecast?{question}"
    mixed = patient_http.get(asked).json()
    mixed["cost"]["conversion"] = {
        "listed_price_per_hour": "22.25",
        "from_currency": "EUR",
        "rate": "1.1",
        "source": "a bank",
    }
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}")
    answer_of(page)
    page.route("**/forecast?*", lambda route: route.fulfill(json=mixed))
    page.get_by_role("button", name="Forecast").click()

    price = page.locator("#answer .facts-list > div").filter(has_text="an hour each").locator("dd")
    expect(price).to_contain_text(
        "p3.16xlarge at $24.48 and 1 \N{MULTIPLICATION SIGN} p3.2xlarge at $3.06 an hour each"
    )
    expect(price).to_contain_text(", converted from EUR 22.25 at 1.1 (a bank)")
