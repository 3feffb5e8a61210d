"""Questions of the page that are hard to ask, and answers that are none of the service."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, answer_with_a_key, publish

pytestmark = pytest.mark.browser

# Safari rejects with an exception that is named SyntaxError and is no instance of it.
_FOREIGN_SYNTAX_ERROR = """() => {
  const read = Response.prototype.json;
  Response.prototype.json = function () {
    return read.call(this).catch(() => {
      throw new DOMException("The string did not match the expected pattern.", "SyntaxError");
    });
  };
}"""
_LAYOUTS = {"a,b": 40.0, "c": 80.0, '"d"': 120.0}
_NAMES = ("instance_type", "provider", "region")


def test_value_that_reads_like_a_list_is_one_value(empty_service: str, open_page: OpenPage) -> None:
    runs = [
        {
            "workload": "layouts",
            "configuration": {"workers": workers},
            "parameters": {"layout": layout},
            "duration_seconds": seconds / workers,
        }
        for layout, seconds in _LAYOUTS.items()
        for workers in (1, 2, 4)
        for _ in range(2)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/layouts?workers=2&param.layout=a%2Cb")
    layout, answer = page.locator("#question [name='param.layout']"), page.locator("#answer")

    assert "2 workers would take about 20 s" in answer_of(page)
    expect(answer).to_contain_text("this configuration was measured")
    expect(page.locator("#curve .legend")).to_contain_text("measured runs")
    assert "param.layout=%22a%2Cb%22" in (answer.locator(".curl code").text_content() or "")

    layout.select_option('"d"')

    expect(answer.locator(".sentence")).to_contain_text("about 1 min")
    expect(answer).to_contain_text("this configuration was measured")
    expect(page).to_have_url(re.compile("param.layout=%22d%22"))


def test_first_question_is_about_hardware_that_the_regressor_knows(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [
        {
            "workload": "renewed",
            "configuration": {"gpu_type": "T4", "workers": workers},
            "duration_seconds": 400 / workers,
        }
        for workers in (1, 2, 4)
        for _ in range(2)
    ]
    publish(empty_service, runs)
    new = [{**runs[0], "configuration": {"gpu_type": "lab-chip"}}] * 11
    patient_http.post(f"{empty_service}/v1/runs", json=new).raise_for_status()

    page = open_page(f"{empty_service}/workloads/renewed")

    assert "T4 would take about" in answer_of(page)
    expect(page.locator("#front")).to_contain_text("The cheapest")

    page.get_by_label("GPUs").select_option("known")

    verdict = page.locator("#front strong")
    expect(verdict).not_to_have_text(re.compile("T4"))
    expect(page.locator("#front .problem")).to_have_count(0)
    page.get_by_label("GPU", exact=True).select_option("V100-16GB")
    page.get_by_label("GPUs").select_option("measured")
    expect(page.locator("#front tbody")).to_contain_text("V100-16GB")


def test_nothing_of_the_question_before_stands_below_one_without_an_answer(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    drawn = page.locator("#curve-plot svg path, #front-plot svg path")
    expect(page.locator("#front-plot svg path").first).to_be_attached()
    expect(page.locator("#curve-plot svg path").first).to_be_attached()

    page.get_by_label("dataset size", exact=True).fill("0")
    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#answer .problem")).to_contain_text("dataset_size")
    expect(drawn).to_have_count(0)
    expect(page.locator("#curve")).to_contain_text("once the question above is answered")

    page.get_by_label("dataset size", exact=True).fill("400000")
    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#front-plot svg")).to_be_visible()
    expect(page.locator("#curve-plot svg")).to_be_visible()


@pytest.mark.parametrize("body", ["<html>Sign in</html>", "[]"])
def test_answer_of_a_stranger_is_no_mistake_of_the_page(
    published_service: str, open_page: OpenPage, body: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/forecast?**", lambda route: route.fulfill(status=200, body=body))

    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#answer .problem")).to_contain_text("Something other than the service")
    expect(page.locator("#answer .problem .remedy")).to_contain_text("Load the page again")


def test_answer_of_a_stranger_is_told_whatever_the_error_is_made_of(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.evaluate(_FOREIGN_SYNTAX_ERROR)
    page.route("**/forecast?**", lambda route: route.fulfill(status=200, body="<html>"))

    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#answer .problem")).to_contain_text("Something other than the service")


def test_refusal_of_a_stranger_is_not_told_by_a_number_alone(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/forecast?**", lambda route: route.fulfill(status=502, body="<html>"))

    page.get_by_role("button", name="Forecast").click()

    told = "HTTP 502 came with no document, perhaps from a proxy"
    expect(page.locator("#answer .problem")).to_contain_text(told)


def test_key_that_no_header_takes_is_asked_for_again(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/v1/**", answer_with_a_key)
    page.get_by_role("button", name="Forecast").click()

    page.locator("#key-input").fill("tf_“pasted”")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#key-note")).to_contain_text("That is not a key")
    page.locator("#key-input").fill("tf_typed")
    page.get_by_role("button", name="Use this key").click()

    answer_of(page)
    expect(page.locator("#answer .curl code")).to_contain_text("Authorization: Bearer KEY")


def _run(workers: int, seconds: float, **told: Any) -> dict[str, Any]:
    """Return a run of `mixed`, on workers of which nothing is known but what is told."""
    configuration = {"workers": workers, **told.pop("configuration", {})}
    return {
        "workload": "mixed",
        "configuration": configuration,
        "duration_seconds": seconds / workers,
        **told,
    }


def _mixed_runs() -> list[dict[str, Any]]:
    """Return runs on T4 and on no GPU at all; the newest tells all, another next to nothing."""
    whole = {"gpu_type": "T4", "provider": "aws", "region": "us-east-1", "purchase": "spot"}
    runs = [_run(workers, 400, parameters={"layout": "a"}) for workers in (1, 2, 4)]
    runs += [_run(workers, 80, configuration={"gpu_type": "T4"}) for workers in (1, 2, 4)]
    runs.append(_run(2, 400, external_id="bare"))
    runs.append(_run(4, 80, external_id="whole", configuration={**whole, "nodes": 2}))
    return runs


def test_question_about_a_run_holds_nothing_of_the_question_before(
    empty_service: str, open_page: OpenPage
) -> None:
    publish(empty_service, _mixed_runs())
    page = open_page(f"{empty_service}/workloads/mixed")
    answer_of(page)
    expect(page).to_have_url(re.compile("nodes=2.*purchase=spot.*region=us-east-1"))

    page.get_by_role("button", name="configuration of bare").click()

    expect(page.locator("#answer .sentence")).to_contain_text("2 workers would take about 3 min")
    expect(page).to_have_url(re.compile(r"\?workers=2&confidence=0.9&gpu_type=&param.layout=$"))
    expect(page.locator("[name='gpu_type'] option:checked")).to_have_text("(none)")
    expect(page.locator("#question [name='purchase'] option:checked")).to_have_text("on demand")


def test_category_can_be_left_open_where_measured_runs_left_it(
    empty_service: str, open_page: OpenPage
) -> None:
    publish(empty_service, _mixed_runs())
    page = open_page(f"{empty_service}/workloads/mixed?gpu_type=T4&workers=2&param.layout=")
    assert "T4 would take about 40 s" in answer_of(page)

    page.get_by_label("GPU", exact=True).select_option("(none)")

    expect(page.locator("#answer .sentence")).to_contain_text("2 workers would take about 3 min")

    page.reload()

    assert "2 workers would take about 3 min" in answer_of(page)
    expect(page.locator("[name='gpu_type'] option:checked")).to_have_text("(none)")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("confidence=0.85", "With 85% confidence"),
        ("price_per_hour=2&currency=CHF", "and cost about CHF "),
    ],
)
def test_address_says_at_what_confidence_and_in_what_money(
    published_service: str, open_page: OpenPage, asked: str, told: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?gpu_type=T4&workers=4&{asked}")

    assert told in answer_of(page)
    expect(page).to_have_url(re.compile(f"{asked}$"))
    shown = page.locator("[name=confidence] option:checked")
    expect(shown).to_have_text("85%" if "0.85" in asked else "90%")


def test_limits_that_would_do_are_told_in_the_units_of_the_form_and_suffice(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    front, search = page.locator("#front"), page.locator("#search")
    expect(front).to_contain_text("The cheapest")
    search.get_by_label("Deadline (hours)").fill("0.0001")
    search.get_by_label("Budget (USD)").fill("0.00001")
    nearest = re.compile(r"be ([\d.]+) hours instead of 0.0001\..* be ([\d.]+) USD instead of 0")
    expect(front).to_contain_text(nearest)
    told = nearest.search(front.inner_text())
    assert told is not None

    search.get_by_label("Deadline (hours)").fill(told[1])
    search.get_by_label("Budget (USD)").fill(told[2])

    expect(front).to_contain_text("The cheapest")


def test_what_would_have_to_change_is_told_in_the_words_of_the_form(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [
        {
            "workload": "unpriced",
            "configuration": {"workers": workers},
            "work": {"epochs": epochs},
            "duration_seconds": 400 * epochs / workers,
        }
        for workers in (1, 2, 4)
        for epochs in (1, 2)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/unpriced?workers=2&epochs=8")
    front, search = page.locator("#front"), page.locator("#search")
    expect(front).to_contain_text("The fastest")

    search.get_by_label("only inside the measured range").check()
    search.get_by_label("Deadline (hours)").fill("0.01")
    search.get_by_label("Budget (USD)").fill("0.1")

    expect(front).to_contain_text("Enter your own price per hour under “Price, limits, confidence”")
    expect(front).to_contain_text(re.compile(r"Up to [\d.]+ USD an hour would keep the budget"))
    expect(front).to_contain_text("or untick “only inside the measured range”.")
    expect(front).not_to_contain_text("pricing.")
    plot = page.locator("#curve-plot")
    expect(plot).to_have_attribute("aria-label", re.compile("; 0 measured runs[.]"))


@pytest.mark.parametrize(
    ("address", "label"),
    [("workers=abc", "Workers"), ("dataset_size=abc", "dataset size"), ("nodes=abc", "Nodes")],
)
def test_address_that_asks_for_no_number_is_refused_before_the_rest_counts(
    published_service: str, open_page: OpenPage, address: str, label: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?gpu_type=T4&{address}")

    problem = page.locator("#answer .problem")
    expect(problem).to_contain_text(f"“{label}” was set to “abc”, which is not a number")
    expect(page).to_have_url(re.compile(address))

    page.get_by_role("button", name="Forecast").click()

    assert "T4" in answer_of(page)


def test_search_looks_at_measured_hardware_without_a_gpu_and_takes_any_parameter(
    published_service: str, open_page: OpenPage
) -> None:
    runs = [
        {
            "workload": "either",
            "configuration": {"workers": workers, **({"gpu_type": gpu} if gpu else {})},
            "parameters": {"__proto__": depth},
            "duration_seconds": depth * 400 / workers / (5 if gpu else 1),
        }
        for gpu in ("T4", None)
        for workers in (1, 2, 4)
        for depth in (1, 2)
    ]
    publish(published_service, runs)
    question = "gpu_type=T4&workers=4&param.__proto__=2"
    page = open_page(f"{published_service}/workloads/either?{question}")
    assert "T4 would take about 40 s" in answer_of(page)

    page.get_by_label("Workers up to").fill("4")
    page.get_by_label("Look for the").select_option("duration")

    rows = page.locator("#front tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.filter(has_text="4 workers")).to_contain_text("3 min 20 s")
    expect(rows.filter(has_text="1 worker")).to_contain_text("13 min 20 s")


@pytest.mark.parametrize(
    ("path", "control"),
    [("/", "#filter"), *((f"/workloads/{PUBLISHED}", f"[name={name}]") for name in _NAMES)],
)
def test_phone_writes_names_as_they_are_typed(
    published_service: str, open_page: OpenPage, path: str, control: str
) -> None:
    page = open_page(f"{published_service}{path}", width=390)

    typed = page.locator(f"{control}:is(input)")

    expect(typed).to_have_attribute("autocapitalize", "none")
    expect(typed).to_have_attribute("autocorrect", "off")
    expect(typed).to_have_attribute("spellcheck", "false")


def test_parameter_may_be_negative_on_the_keys_of_a_phone(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [
        {"workload": "shifted", "parameters": {"shift": shift}, "duration_seconds": 20 + shift}
        for shift in (-2, -1, 0, 1)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/shifted", width=390)
    shift = page.locator("[name='param.shift']")

    # With either of the numeric modes, an iPhone shows keys without a minus.
    expect(shift).not_to_have_attribute("inputmode", re.compile("."))
    shift.fill("-1")
    shift.press("Enter")

    answer_of(page)
    expect(page).to_have_url(re.compile("param.shift=-1"))


def test_hint_of_a_parameter_tells_its_unit(empty_service: str, open_page: OpenPage) -> None:
    runs = [
        {"workload": "deep", "parameters": {"depth": depth}, "duration_seconds": 20 + depth}
        for depth in (1000, 2000, 3000)
    ]
    publish(empty_service, runs)
    declared = {"parameters": {"depth": {"type": "number", "unit": "km"}}}
    patient_http.put(f"{empty_service}/v1/workloads/deep", json=declared).raise_for_status()

    page = open_page(f"{empty_service}/workloads/deep")

    depth = page.get_by_label("depth", exact=True)
    expect(depth).to_have_accessible_description("measured: 1,000 to 3,000 km")
