"""What a reader opens stays open, what is printed suits paper, and what is new is read out."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.conftest import PUBLISHED, OpenPage, answer_of, publish

pytestmark = pytest.mark.browser
_WIDTHS = "all => all.map((each) => each.getBoundingClientRect().width)"


def test_page_is_printed_in_light_colours_across_the_sheet_and_shown_as_before(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", scheme="dark")
    answer_of(page)
    charts = page.locator(".plot svg")
    expect(charts).to_have_count(2)
    line = page.locator("#front-plot svg path[stroke]").first
    on_screen = charts.evaluate_all(_WIDTHS), line.get_attribute("stroke")

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    printed = charts.evaluate_all(_WIDTHS), line.get_attribute("stroke")
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    expect(page.get_by_role("button", name="Add to comparison")).to_be_hidden()
    expect(page.locator("#question")).to_be_visible()

    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")

    assert printed[0] == [640, 640]
    assert printed[1] != on_screen[1]
    assert background == "rgb(247, 248, 249)"
    assert (charts.evaluate_all(_WIDTHS), line.get_attribute("stroke")) == on_screen


def test_what_the_reader_has_opened_stays_open_when_it_is_answered_anew(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer = answer_of(page)
    opened = [page.locator("#answer .curl"), page.locator("#curve details")]
    for each in opened:
        each.locator("summary").click()

    page.get_by_label("Workers", exact=True).fill("3")
    page.get_by_label("Workers", exact=True).press("Enter")

    expect(page.locator("#answer .sentence")).not_to_have_text(answer)
    expect(opened[0]).to_contain_text("workers=3")
    for each in opened:
        expect(each).to_have_attribute("open", "")


def test_progress_of_a_fit_is_read_out_once_for_each_step(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    running = {"fit_id": "fit_x", "state": "running", "cancel_requested": False}
    looks = [
        {**running, "progress": share, "step": step}
        for share, step in ((0.1, "folds"), (0.2, "folds"), (0.3, "folds"), (0.4, "last"))
    ]
    page.route(f"**/{PUBLISHED}/fits", lambda route: route.fulfill(json={"fit_id": "fit_x"}))
    page.route(
        "**/v1/fits/fit_x",
        lambda route: route.fulfill(json=looks.pop(0) if looks[1:] else looks[0]),
    )
    page.evaluate(
        """() => {
          window.told = [];
          new MutationObserver((changes) => {
            for (const { target } of changes) {
              const live = target.closest?.("#fit [role=status]");
              if (live) window.told.push(live.textContent);
            }
          }).observe(document.getElementById("fit"), { childList: true, subtree: true });
        }"""
    )

    page.get_by_role("button", name="Fit again").click()

    expect(page.locator("#fit")).to_contain_text("40%")
    expect(page.locator("#fit [role=status]")).to_have_text("last")
    assert page.evaluate("window.told") == ["folds", "last"]


def test_refusal_of_a_key_is_read_out(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    expect(page.locator("#front")).to_contain_text("The cheapest")
    expect(page.locator("#curve-plot canvas, #curve-plot svg").first).to_be_visible()
    page.route("**/v1/**", lambda route: route.fulfill(status=401, body="{}"))
    page.get_by_role("button", name="Forecast").click()
    key = page.locator("#key-input")
    expect(key).to_have_accessible_description(re.compile("^An operator makes one"))

    key.fill("tf_“pasted”")
    key.press("Enter")
    expect(page.locator("#key-note[aria-live=polite]")).to_contain_text("That is not a key")
    key.fill("tf_unknown")
    key.press("Enter")

    # The dialog comes again, with the focus on its field, whose description is read with it.
    expect(key).to_be_focused()
    expect(key).to_have_accessible_description(re.compile("^The service did not accept the key"))


_NUMBER_BESIDE_ITS_NAME = """(element, [name, value]) => {
  const left = text => {
    const range = document.createRange();
    const start = element.firstChild.data.indexOf(text);
    range.setStart(element.firstChild, start);
    range.setEnd(element.firstChild, start + text.length);
    return range.getBoundingClientRect().left;
  };
  return left(name) < left(value);
}"""


def test_number_stands_behind_a_name_that_is_written_from_right_to_left(
    empty_service: str, open_page: OpenPage
) -> None:
    name = "\u0637\u0628\u0642\u0627\u062a"
    runs = [
        {"workload": "arabic", "duration_seconds": 10 + size, "parameters": {name: size}}
        for size in (111, 222, 333)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/arabic")

    work = page.locator("#runs td small").first
    expect(work).to_contain_text("333")

    assert work.evaluate(_NUMBER_BESIDE_ITS_NAME, [name, "333"])


def test_page_that_stays_open_says_how_long_ago_a_fit_is_now(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/problems")
    page.clock.install()
    page.goto(f"{published_service}/workloads/{PUBLISHED}")
    fitted = page.locator("#regressor time").first
    expect(fitted).to_have_text(re.compile("just now|[0-9]+ min ago"))

    page.clock.fast_forward("03:00:00")

    expect(fitted).to_have_text("3 h ago")
    expect(fitted).to_have_attribute("aria-live", "off")
