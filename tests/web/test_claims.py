"""The page claims of fits and comparisons only what is so."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, drop, forecast_document

pytestmark = pytest.mark.browser
_TITLES = "(all) => all.map((each) => each.title)"
_MARK = (
    "echarts.getInstanceByDom(document.getElementById('curve-plot')).getOption()"
    ".series.find(({ name }) => name === 'median').markLine.data[0].xAxis"
)


def _percent(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):g}%"


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
    fit |= {"started_at": "2026-11-01T10:00:00Z", "ended_at": "2026-11-01T10:00:12Z"}
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/fits", lambda route: route.fulfill(status=202, json=fit))
    page.route("**/v1/fits/*", lambda route: route.fulfill(json=fit))

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#fit .note")).to_contain_text(
        "not published: as asked; 2 candidates in 12 s"
    )


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
    fastest = page.locator("#comparison tbody tr", has_text="fastest")
    expect(fastest).to_contain_text(["2 \N{MULTIPLICATION SIGN}"])

    fastest.locator(".remove").click()

    rows = page.locator("#comparison tbody tr")
    expect(rows).to_contain_text(["1 \N{MULTIPLICATION SIGN}"] * 2)
    page.goto(f"{published_service}/workloads/nobody")
    expect(page.locator("#problem .problem")).to_be_visible()
    expect(rows).to_have_count(0)


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
    mixed = forecast_document(published_service, question)
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


def test_figures_of_a_forecast_are_those_of_the_answer(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=1&dataset_size=400000&batch_size=256&epochs=2"
    told = forecast_document(published_service, f"{question}&explain=true")
    hour = {"median": 7200, "lower": 3600, "upper": 10800, "confidence": 0.9}
    minute = {"median": 120, "lower": 60, "upper": 180, "confidence": 0.9}
    money = {"currency": "USD", "median": "20", "lower": "10", "upper": "30"}
    rare = {"name": "gpu_type", "value": "T4"}
    told |= {
        "regressor_version": 7,
        "duration_seconds": hour,
        "time_limit_seconds": 14_400,
        "cost": told["cost"] | money,
        "basis": "transferred",
        "support": told["support"] | {"runs_used": 31, "rare_levels": [rare]},
        "feasibility": {"fits_probability": 0.98, "basis": "31 runs"},
        "energy": told["energy"] | {"kilowatt_hours": 5.5, "kg_co2e": 2.2, "kg_co2e_per_kwh": 0.4},
        "to_target": {"duration_seconds": minute, "epochs": {"median": 12}, "cost": money},
        "taught_by": [{"run_ids": ["run_x"], "influence": -0.5, "about": "setup"}],
    }
    page = open_page(f"{published_service}/")
    page.route("**/forecast?*", lambda route: route.fulfill(json=told))
    page.goto(f"{published_service}/workloads/{PUBLISHED}?{question}")

    sentence = answer_of(page)
    assert "about 2 h and cost about $20.00." in sentence
    assert "With 90% confidence a new run takes 1 h to 3 h ($10.00 to $30.00)." in sentence
    for name, words in (
        ("Basis", "few or no runs with gpu type T4: learned from others; 31 runs, version 7"),
        ("Safe time limit", "4 h"),
        ("Fits into memory", "98% (31 runs)"),
        ("Energy, at most", "5.5 kWh, 2.2 kg CO2e"),
        ("To the target", "2 min (1 min – 3 min), 12 epochs, $20.00"),  # noqa: RUF001 - shown so
    ):
        fact = page.locator("#answer .facts-list > div").filter(has_text=name)
        expect(fact.locator("dd")).to_contain_text(words)
    lesson = page.locator("#answer .lesson")
    expect(lesson).to_have_attribute(
        "title", "run_x: 1% more time there is -0.5% here, through setup"
    )


def test_figures_of_the_card_are_those_of_the_regressor(
    published_service: str, open_page: OpenPage
) -> None:
    url = f"{published_service}/v1/workloads/{PUBLISHED}"
    error = patient_http.get(url).json()["regressor"]["accuracy"]["interpolation"]
    told = patient_http.get(f"{url}/regressors").json()
    for regressor in told["regressors"]:
        lesser = {"regressor": "lesser", "weight": 0.25, "mape": 0.5, "by_axis": {}}
        greater = {"regressor": "greater", "weight": 0.75, "mape": 0.125, "by_axis": {}}
        regressor |= {
            "runs_used": 31,
            "configurations_used": 12,
            "accuracy_by_axis": {"interpolation": 0.123, "workers": 0.3},
            "coverage": {"0.8": 0.7},
            "candidates": [lesser, greater],
        }
    page = open_page(f"{published_service}/")
    page.route("**/regressors?*", lambda route: route.fulfill(json=told))
    page.goto(f"{published_service}/workloads/{PUBLISHED}")

    expect(page.locator("#facts")).to_contain_text(f"typical error {_percent(error)}")
    card = page.locator("#card")
    expect(card.locator(".meters > div")).to_have_text(
        ["inside the measured range12%", "more workers than measured30%", "80% bandsheld 70%"]
    )
    expect(card).to_contain_text("on 31 runs of 12 configurations")
    candidates, versions = card.locator("table").all()
    expect(candidates.locator("tbody tr")).to_contain_text(["greater75%13%", "lesser25%50%"])
    expect(versions.locator("tbody tr").first).to_contain_text("3112%")


def test_charts_draw_what_the_service_answers(published_service: str, open_page: OpenPage) -> None:
    question = "gpu_type=T4&workers=2&dataset_size=400000&batch_size=256&epochs=2&confidence=0.8"
    page = open_page(f"{published_service}/problems")
    with (
        page.expect_response("**/curve?*") as curve_answer,
        page.expect_response("**/v1/recommendations") as search_answer,
    ):
        page.goto(f"{published_service}/workloads/{PUBLISHED}?{question}&deadline_s=7200")
    curve, search = curve_answer.value.json(), search_answer.value.json()
    answer_of(page)

    drawn = _series(page, "curve-plot")
    bands = [point["forecast"]["duration_seconds"] for point in curve["points"]]
    assert [y for _, y in drawn["lower"]] == [band["lower"] for band in bands]
    assert [y for _, y in drawn["median"]] == [band["median"] for band in bands]
    assert [y for _, y in drawn["band"]] == [band["upper"] - band["lower"] for band in bands]
    measured = [[run["value"], run["duration_seconds"]] for run in curve["measured"]]
    assert drawn["measured"] == measured
    costs = [[point["value"], point["forecast"]["cost"]["median"]] for point in curve["points"]]
    assert drawn["cost"] == [[value, float(cost)] for value, cost in costs]

    _check_figures(page, curve["points"][-1])

    drawn = _series(page, "front-plot")
    assert [point["value"] for point in drawn["all"]] == _points(search["ranked"])
    assert [point["value"] for point in drawn["front"]] == _points(search["pareto"])
    assert [point["value"] for point in drawn["best"]] == _points(search["ranked"][:1])
    assert len(search["pareto"]) < len(search["ranked"])
    shown = page.locator("#front td:nth-child(4) [title]").evaluate_all(_TITLES)
    costs = [entry["forecast"]["cost"]["median"] for entry in search["ranked"]]
    assert shown == [f"{cost} USD" for cost in costs[: len(shown)]]


def _check_figures(page: Page, last: dict[str, Any]) -> None:
    """Compare the last row of the curve's figures, its description and its mark."""
    row = page.locator("#curve tbody tr").last.locator("td")
    value, duration, _, _, efficiency, _, basis = row.all_text_contents()
    cost = f"{last['forecast']['cost']['median']} USD"
    told = page.locator("#curve-plot").get_attribute("aria-label") or ""

    assert (value, basis) == (str(last["value"]), last["forecast"]["basis"])
    assert f", {duration} at {value};" in told
    assert efficiency == _percent(last["efficiency"])
    expect(row.locator("[title$=USD]")).to_have_attribute("title", cost)
    assert page.evaluate(_MARK) == 2


def _series(page: Page, place: str) -> dict[str, Any]:
    """Return what a chart draws, by its name."""
    expect(page.locator(f"#{place} svg path").first).to_be_attached()
    drawn: list[dict[str, Any]] = page.evaluate(
        f"echarts.getInstanceByDom(document.getElementById('{place}')).getOption().series"
        ".map(({ name, data }) => ({ name, data }))"
    )
    return {each["name"]: each["data"] for each in drawn}


def _points(entries: list[dict[str, Any]]) -> list[list[float]]:
    forecasts = [entry["forecast"] for entry in entries]
    return [
        [forecast["duration_seconds"]["median"], float(forecast["cost"]["median"])]
        for forecast in forecasts
    ]


def test_search_and_limits_are_asked_as_they_are_shown(
    published_service: str, open_page: OpenPage
) -> None:
    question = "gpu_type=T4&workers=2&dataset_size=400000&batch_size=256&epochs=2"
    limits = "confidence=0.8&budget=5&deadline_s=7200"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{question}&{limits}")
    answer_of(page)
    expect(page).to_have_url(re.compile(f"{limits}$"))
    expect(page.get_by_label("Deadline (hours)").first).to_have_value("2")
    expect(page.locator("#answer .facts-list")).to_contain_text("Keeps the budget")
    rows = page.locator("#front tbody tr")
    expect(rows).to_have_count(6)

    with page.expect_request("**/v1/recommendations") as request:
        page.locator("#search [name=purchase]").select_option("spot")

    body = request.value.post_data_json or {}
    assert (body["confidence"], body["search"]["purchase"]) == (0.8, ["spot"])
    with page.expect_request("**/v1/recommendations") as request:
        page.locator("#search [name=gpus]").select_option("known")
    body = request.value.post_data_json or {}
    assert len(body["search"]["gpu_types"]) > 10
    page.locator("#search [name=gpus]").select_option("measured")
    with page.expect_response("**/v1/recommendations"):
        page.locator("#search [name=purchase]").select_option("on_demand")
    second = page.get_by_role("button", name="Ask about").nth(1)
    # In one step: another answer may replace the table between two.
    asked = second.evaluate("button => (button.click(), button.ariaLabel)")
    expect(page.locator("#answer .hardware")).to_have_text(asked.removeprefix("Ask about "))


def test_chart_is_not_said_to_draw_all_configurations(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    plot = page.locator("#front-plot")
    expect(plot).to_have_attribute("aria-label", re.compile("duration of 12 configurations, "))

    page.locator("#search [name=gpus]").select_option("known")
    expect(plot).to_have_attribute("aria-label", re.compile(r"duration of \d{3} configurations, "))
    page.locator("#search [name=objective]").select_option("duration")

    some = re.compile(r"duration of (\d+) of (\d+) configurations, ")
    expect(plot).to_have_attribute("aria-label", some)
    told = some.search(plot.get_attribute("aria-label") or "")
    assert told is not None
    # All known hardware is searched, 300 are drawn, of these the ones with a price.
    assert int(told[1]) <= 300 < int(told[2])


def test_one_of_a_kind_is_told_in_the_singular(published_service: str, open_page: OpenPage) -> None:
    url = f"{published_service}/v1/workloads/{PUBLISHED}/fits"
    asked = {"regressors": ["log_linear"], "publish": "never"}
    fit = patient_http.post(url, json=asked, headers={"Prefer": "wait=60"}).json()
    fit["candidates"] = fit["candidates"][:1]
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/fits", lambda route: route.fulfill(status=202, json=fit))
    page.route("**/v1/fits/*", lambda route: route.fulfill(json=fit))

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#fit .note")).to_contain_text("; 1 candidate in ")


def test_upload_counts_the_workloads_and_rows_that_it_does_not_name(
    empty_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{empty_service}/")

    rows = "".join(f"net-{number:02},5,4,1\n" for number in range(14))
    drop(page, "many.csv", f"workload,duration_seconds,nodes,workers\n{rows}")

    told = page.locator("#upload-result")
    expect(told.locator(".chips li")).to_have_text(
        [*(f"net-{number:02}" for number in range(12)), "and 2 more"]
    )
    expect(told.locator(".warning")).to_contain_text(
        "(14 rows: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …) Send `workers`"
    )
