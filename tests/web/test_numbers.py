"""The page shows and takes every number: nought, below it, and what is none."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, publish

pytestmark = pytest.mark.browser


def _module(name: str) -> str:
    """Return the expression of a module's address on an open page."""
    return f"document.querySelector('script[type=module]').src.replace(/[^/]+$/, '{name}')"


@pytest.fixture
def service_with_free_hardware(published_service: str) -> Iterator[str]:
    """Yield the URL of a service where one GPU type of two costs nothing."""
    price = {"gpu_type": "T4", "price_per_hour": "0", "currency": "USD"}
    stored = patient_http.post(f"{published_service}/v1/prices", json=price)
    assert stored.status_code == 201, stored.text
    yield published_service
    price_id = stored.json()["prices"][0]["price_id"]
    patient_http.delete(f"{published_service}/v1/prices/{price_id}").raise_for_status()


@pytest.fixture
def service_with_negative_parameters(published_service: str) -> str:
    """Return the URL of a service that has a regressor of parameters down to nought and below."""
    runs = [
        {
            "workload": "shifted",
            "configuration": {"workers": workers},
            "parameters": {"shift": shift, "depth": shift - 1, "rate": shift + 2},
            "duration_seconds": (20 + 400 / workers) * (1 + (shift + 2) / 20),
        }
        for workers in (1, 2, 4)
        for shift in (-2, -1, 0, 1)
    ]
    publish(published_service, runs)
    return published_service


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


def _type(control: Locator, text: str) -> None:
    control.fill("")
    control.press_sequentially(text)
    control.press("Tab")


def test_search_refuses_numbers_that_it_cannot_send(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    found, problem = page.locator("#front table"), page.locator("#front .problem")

    for name, text, told in (
        ("Workers up to", "1e", "is not a number"),
        ("Workers up to", "0", "Write 1 or more"),
        ("Workers up to", "-4", "Write 1 or more"),
        ("Workers up to", "2.7", "is not a whole number"),
        ("Deadline (hours)", "1e", "is not a number"),
        ("Deadline (hours)", "1e400", "is not a number"),
        ("Deadline (hours)", "1e305", "is too large"),
        ("Deadline (hours)", "-5", "Write 0 or more"),
        ("Budget (USD)", "--", "is not a number"),
    ):
        expect(found).to_be_visible()
        control = page.locator("#search").get_by_label(name)
        _type(control, text)
        expect(problem).to_contain_text(f"“{name}”")
        expect(problem).to_contain_text(told)
        control.fill("")


def test_curve_refuses_numbers_that_it_cannot_send(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    control = page.get_by_label("Up to", exact=True)
    expect(page.locator("#curve-plot svg path").first).to_be_attached()

    for text, told in (
        ("1e", "is not a number"),
        ("-", "is not a number"),
        ("0", "Write 1 or more"),
        ("1.5", "is not a whole number"),
    ):
        _type(control, text)
        expect(page.locator("#curve .problem")).to_contain_text(told)

    _type(control, "16")
    expect(page.locator("#curve-plot[aria-label*='at 16;']")).to_be_visible()


def test_decimal_comma_that_the_browser_drops_is_told(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    found, problem = page.locator("#front table"), page.locator("#front .problem")
    control = page.locator("#search").get_by_label("Deadline (hours)")
    expect(found).to_be_visible()

    _type(control, "2,5")
    expect(problem).to_contain_text("“Deadline (hours)” was typed with a comma")
    control.press("Tab")
    expect(problem).to_contain_text("became 25.")

    _type(control, "2.5")
    expect(found).to_be_visible()
    with page.expect_request("**/v1/recommendations") as request:
        _type(control, "1,250")
    assert (request.value.post_data_json or {})["deadline_s"] == 1250 * 3600


def test_search_without_a_number_of_workers_takes_the_usual_one(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    largest = page.locator("#front strong", has_text="32 \u00d7")
    page.get_by_label("Look for the").select_option("duration")
    expect(largest).to_be_visible()

    _type(page.get_by_label("Workers up to"), "4")
    expect(largest).to_have_count(0)
    page.get_by_label("Workers up to").fill("")

    expect(largest).to_be_visible()


def test_curve_runs_along_what_can_be_drawn(
    service_with_negative_parameters: str, open_page: OpenPage
) -> None:
    page = open_page(
        f"{service_with_negative_parameters}/workloads/shifted"
        "?workers=2&param.shift=-2&param.depth=-3&param.rate=0"
    )
    assert answer_of(page).startswith("2 workers")

    expect(page.get_by_label("Along").locator("option")).to_have_text(["workers", "rate"])
    page.get_by_label("Along").select_option("param.rate")

    expect(page.locator("#curve-plot[aria-label*='rate']")).to_be_visible()
    ticks = page.locator("#curve-plot svg text", has_text=re.compile(r"^\d+$"))
    expect(ticks).to_have_text(["0", "2", "4", "6", "8", "10", "12"])


def test_count_with_an_exponent_is_its_number(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)

    page.locator("#question [name=workers]").fill("1.6e1")
    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#answer .hardware")).to_contain_text("16 ")
    expect(page).to_have_url(re.compile("workers=16&"))


def test_durations_do_not_round_up_out_of_their_unit(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    durations = [0.9994, 0.9996, 9.94, 9.96, 365 * 86400, 730 * 86400]

    said = page.evaluate(
        f"import({_module('format.js')}).then(({{duration}}) => {durations}.map(duration))"
    )

    assert said == ["999 ms", "1.0 s", "9.9 s", "10 s", "1 year", "2 years"]


def test_tiny_amounts_are_told_without_an_exponent(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    amounts = ["0.000000213", "0.00046", "0.09", "0.0996", "99.996", "0"]

    said = page.evaluate(
        f"import({_module('format.js')})"
        f".then(({{money}}) => {amounts}.map((amount) => money(amount, 'USD')))"
    )

    assert said == ["$0.00000021", "$0.00046", "$0.09", "$0.10", "$100", "$0"]


def test_limit_of_years_is_rounded_up(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    limits = [365 * 86400, 365 * 86400 + 1, 5_000_000_000]

    said = page.evaluate(
        f"import({_module('format.js')})"
        f".then(({{durationRoundedUp}}) => {limits}.map(durationRoundedUp))"
    )

    assert said == ["1 year", "1.01 years", "159 years"]


def test_names_and_instants_are_told_shortly(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/")

    said = page.evaluate(
        f"import({_module('format.js')}).then(({{ ago, someOf }}) => ["
        "...[30, 100, 80_000, 1_200_000].map((past) => ago(new Date(Date.now() - past * 1000)"
        ".toISOString())), ago('2020-02-03T04:05:06Z'),"
        " someOf([...'abcd'], 'workload'), someOf([...'abcde'], 'workload')])"
    )

    assert said == [
        *("just now", "1 min ago", "22 h ago", "13 d ago", "2020-02-03"),
        *("a, b, c, d", "a, b, c and 2 more workloads"),
    ]


@pytest.mark.parametrize("days", [(0.3, 4), (6, 15), (12, 300), (0.6, 400), (20, 3000)])
def test_axis_of_long_trainings_ends_near_the_longest(
    published_service: str, open_page: OpenPage, days: tuple[float, float]
) -> None:
    page = open_page(f"{published_service}/")
    low, high = (86400 * value for value in days)

    scale = page.evaluate(
        f"import({_module('chart.js')}).then(({{scaleOf}}) => scaleOf([{low}, {high}], true))"
    )

    assert low / 2.5 <= scale["min"] <= low
    assert high <= scale["max"] <= 2.5 * high
    assert scale["ticks"][0] == scale["min"]
    assert 3 <= len(scale["ticks"]) <= 9


@pytest.mark.parametrize(
    ("low", "high", "is_duration"),
    [
        (2.1, 3.2, False),
        (2.1, 4.9, False),
        (50, 50, False),
        (0.0231, 0.0232, False),
        (12.7, 15.0, True),
        (1.1, 1.2, True),
        (4000, 4000, True),
        (90_000, 170_000, True),
    ],
)
def test_axis_of_a_narrow_range_has_several_ticks_that_differ(
    published_service: str, open_page: OpenPage, low: float, high: float, *, is_duration: bool
) -> None:
    page = open_page(f"{published_service}/")
    tick = "durationTick(value)" if is_duration else "moneyTick(value, 'USD')"

    labels, scale = page.evaluate(
        f"Promise.all([import({_module('chart.js')}), import({_module('format.js')})]).then("
        f"([{{scaleOf}}, {{durationTick, moneyTick}}]) => {{"
        f" const scale = scaleOf([{low}, {high}], {str(is_duration).lower()});"
        f" return [scale.ticks.map((value) => {tick}), scale]; }})"
    )

    assert 3 <= len(labels) == len(set(labels)) <= 9
    assert low / 1.6 <= scale["min"] <= low
    assert high <= scale["max"] <= 1.6 * high


def test_error_beyond_all_use_stays_inside_its_column(
    published_service: str, open_page: OpenPage
) -> None:
    url = f"{published_service}/v1/workloads/{PUBLISHED}"
    detail = patient_http.get(url).json()
    detail["regressor"]["accuracy"] = {"interpolation": 8.05e10}
    told = patient_http.get(f"{url}/regressors").json()
    for regressor in told["regressors"]:
        regressor["accuracy_by_axis"] = {"interpolation": 8.05e10, "workers": 9.99}
    page = open_page(f"{published_service}/")
    page.set_viewport_size({"width": 390, "height": 800})
    page.route(f"**/v1/workloads/{PUBLISHED}", lambda route: route.fulfill(json=detail))
    page.route("**/regressors?*", lambda route: route.fulfill(json=told))
    page.goto(f"{published_service}/workloads/{PUBLISHED}")

    figures = page.locator("#card .meters").first.locator(".figure")
    expect(figures).to_have_text(["over 999%", "999%"])
    expect(page.locator("#facts")).to_contain_text("typical error over 999%")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
