"""Questions of the page that are hard to ask, and answers that are none of the service."""

import re

import pytest
from playwright.sync_api import Route, expect

from tests.web.conftest import PUBLISHED, OpenPage, answer_of, publish

pytestmark = pytest.mark.browser

_LAYOUTS = {"a,b": 40.0, "c": 80.0, '"d"': 120.0}


def _answer_with_a_key(route: Route) -> None:
    """Want a key, whichever, and ask the service, which wants none, without it."""
    headers = {**route.request.headers}
    if headers.pop("authorization", None):
        route.continue_(headers=headers)
    else:
        route.fulfill(status=401, body="{}")


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

    expect(page.locator("#answer .problem")).to_contain_text("Something else than the service")
    expect(page.locator("#answer .problem .remedy")).to_contain_text("Load the page again")


def test_key_that_no_header_takes_is_asked_for_again(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.route("**/v1/**", _answer_with_a_key)
    page.get_by_role("button", name="Forecast").click()

    page.locator("#key-input").fill("tf_“pasted”")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#key-note")).to_contain_text("That is no key")
    page.locator("#key-input").fill("tf_typed")
    page.get_by_role("button", name="Use this key").click()

    answer_of(page)
    expect(page.locator("#answer .curl code")).to_contain_text("Authorization: Bearer KEY")
