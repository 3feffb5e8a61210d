"""A page that Back or Forward brings back as it was left tells what holds now."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support import patient_http
from tests.web.conftest import PUBLISHED, OpenPage, answer_of, answer_with_a_key, publish

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


def test_search_and_curve_are_kept_in_the_address(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?workers=2")
    search, front = page.locator("#search"), page.locator("#front")
    expect(front).to_contain_text("The cheapest")
    search.get_by_label("Look for the").select_option("duration")
    search.get_by_label("Workers up to").fill("4")
    search.get_by_label("Deadline (hours)").fill("0.5")
    search.get_by_label("only inside the measured range").check()
    page.locator("#axis").get_by_label("Along").select_option("dataset_size")
    page.locator("#axis").get_by_label("Up to").fill("3000000")
    kept = (
        "curve.over=dataset_size&curve.to=3000000"
        "&search.objective=duration&search.most=4&search.deadline_h=0.5&search.within=on"
    )
    expect(page).to_have_url(re.compile(kept))

    again = open_page(page.url)

    search, front = again.locator("#search"), again.locator("#front")
    expect(search.get_by_label("Workers up to")).to_have_value("4")
    expect(search.get_by_label("Deadline (hours)")).to_have_value("0.5")
    expect(search.get_by_label("only inside the measured range")).to_be_checked()
    expect(front).to_contain_text("The fastest")
    plot = again.locator("#curve-plot")
    expect(plot).to_have_attribute("aria-label", re.compile("over dataset size: .* at 3,000,000;"))
    expect(again.locator("#question").get_by_label("Workers")).to_have_value("2")


def test_what_the_forms_do_not_offer_is_left_as_usual(
    published_service: str, open_page: OpenPage
) -> None:
    address = "search.objective=luck&search.most=many&search.length=1&curve.over=luck"
    page = open_page(f"{published_service}/workloads/{PUBLISHED}?{address}")

    expect(page.locator("#front")).to_contain_text("The cheapest")
    expect(page.locator("#search").get_by_label("Look for the")).to_have_value("cost")
    answer_of(page)


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


def test_page_tells_of_the_runs_that_a_new_fit_has_seen(
    empty_service: str, open_page: OpenPage
) -> None:
    runs = [{"workload": "grown", "duration_seconds": 5, "configuration": {"gpu_type": "T4"}}]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/grown?gpu_type=T4&workers=1&confidence=0.8")
    answer_of(page)
    more = [{**runs[0], "configuration": {"gpu_type": "lab-chip", "workers": 4}}]
    publish(empty_service, more)
    question = page.locator("#question")

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#facts")).to_contain_text("version 3")
    expect(question).to_contain_text("measured: 1 to 4")
    expect(question.locator("optgroup[label=Measured]")).to_contain_text("lab-chip")
    expect(question.locator("[name=confidence]")).to_have_value("0.8")
    expect(page.locator("#runs tbody tr")).to_have_count(2)
    expect(page.locator("#curve-plot")).to_be_visible()
    expect(page.locator("#front-plot")).to_be_visible()


def test_failure_to_show_what_was_published_is_told(
    empty_service: str, open_page: OpenPage
) -> None:
    publish(empty_service, [{"workload": "lost", "duration_seconds": 5}])
    page = open_page(f"{empty_service}/workloads/lost")
    answer_of(page)
    page.route("**/v1/workloads/lost", lambda route: route.abort())

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#problem .problem")).to_contain_text("does not answer")


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


@pytest.mark.parametrize(("status", "body"), [(429, '{"code": "quota_exceeded"}'), (502, "<p>")])
def test_fit_is_followed_although_requests_are_refused_for_the_moment(
    empty_service: str, open_page: OpenPage, status: int, body: str
) -> None:
    run = {"workload": "limited", "duration_seconds": 5}
    patient_http.post(f"{empty_service}/v1/runs", json=run).raise_for_status()
    page = open_page(f"{empty_service}/workloads/limited")
    button = page.get_by_role("button", name="Fit a regressor")
    expect(button).to_be_visible()
    refused: list[str] = []

    def refuse_two(route: Route) -> None:
        if len(refused) == 2:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=status, body=body, headers={"Retry-After": "1"})

    page.route("**/v1/fits/*", refuse_two)
    button.click()

    expect(page.locator("#fit .note")).to_contain_text("Version 1 is published")
    assert len(refused) == 2


def test_list_says_why_an_accuracy_is_not_known(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/problems")
    document = '{"code": "quota_exceeded", "detail": "Ask again in 9 s."}'
    path = f"**/v1/workloads/{PUBLISHED}"
    page.route(path, lambda route: route.fulfill(status=429, body=document))

    page.goto(f"{published_service}/")

    unknown = page.locator(f"tr[data-name={PUBLISHED}] .accuracy [title]")
    expect(unknown).to_have_text("?")
    expect(unknown).to_have_attribute("title", "Ask again in 9 s.")


def test_reader_is_told_how_long_a_limit_lasts(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/problems")
    document = '{"code": "quota_exceeded", "remedy": "Wait as long as Retry-After says."}'
    page.route(
        f"**/v1/workloads/{PUBLISHED}",
        lambda route: route.fulfill(status=429, body=document, headers={"Retry-After": "42"}),
    )

    page.goto(f"{published_service}/workloads/{PUBLISHED}")

    expect(page.locator("#problem .remedy")).to_have_text("Try again in 42 seconds.")


def test_version_that_was_published_elsewhere_is_told_with_its_first_answer(
    empty_service: str, open_page: OpenPage
) -> None:
    run = {"workload": "elsewhere", "configuration": {"workers": 1, "gpu_type": "T4"}}
    publish(empty_service, [run | {"duration_seconds": 60}])
    page = open_page(f"{empty_service}/workloads/elsewhere")
    expect(page.locator("#facts")).to_contain_text("version 1")
    answer_of(page)
    more = {"workload": "elsewhere", "configuration": {"workers": 2, "gpu_type": "L4"}}
    publish(empty_service, [more | {"duration_seconds": 30}])
    page.get_by_role("button", name="Forecast").click()

    expect(page.locator("#facts")).to_contain_text("version 2")
    expect(page.locator("#facts")).to_contain_text("2 runs")
    expect(page.get_by_label("GPU", exact=True).locator("optgroup").first).to_contain_text("L4")
    answer_of(page)
