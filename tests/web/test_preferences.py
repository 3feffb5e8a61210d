"""What readers have set in their system is heeded."""

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import PUBLISHED, OpenPage, answer_of

pytestmark = pytest.mark.browser

_OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"


def _enlarge_text(page: Page) -> None:
    """Set twice the usual size of text in the browser."""
    protocol = page.context.new_cdp_session(page)
    protocol.send("Page.setFontSizes", {"fontSizes": {"standard": 32}})
    expect(page.locator("html")).to_have_css("font-size", "32px")


@pytest.mark.parametrize("width", [1280, 390])
def test_large_text_finds_room(published_service: str, open_page: OpenPage, width: int) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=width)
    answer_of(page)
    expect(page.locator("#card .meters").first).to_be_visible()

    _enlarge_text(page)

    assert page.evaluate(_OVERFLOW) <= 0
    fact = page.locator("#answer dd").first.bounding_box()
    size = page.locator("#question [name=dataset_size]")
    assert fact is not None
    assert fact["width"] > 250
    assert size.evaluate("(input) => input.scrollWidth <= input.clientWidth")


@pytest.mark.parametrize("control", ["#question select", "[name=workers]", "[name=within]"])
def test_focus_is_seen_at_high_contrast(
    published_service: str, open_page: OpenPage, control: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    page.emulate_media(forced_colors="active")
    answer_of(page)

    page.locator(control).first.focus()

    # The system removes shadows and gives all borders one colour.
    expect(page.locator(control).first).to_have_css("outline-style", "solid")


def test_colours_that_tell_something_stay_at_high_contrast(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    colours = (
        "() => [['.legend .cost', '::before'], ['.legend .best', '::before'], ['.meter .bar'],"
        " ['.readiness .dot']].map(([selector, part]) =>"
        " getComputedStyle(document.querySelector(selector), part).backgroundColor)"
    )
    expect(page.locator("#readiness")).to_have_attribute("data-state", "ready")
    for coloured in (".legend .cost", ".legend .best", ".meter .bar"):
        expect(page.locator(coloured).first).to_be_visible()
    usual = page.evaluate(colours)

    page.emulate_media(forced_colors="active")

    assert page.evaluate(colours) == usual


def test_page_jumps_for_those_who_want_no_motion(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    page.emulate_media(reduced_motion="reduce")
    answer_of(page)
    expect(page.locator("#runs .link").first).to_be_visible()

    away = page.locator("#runs .link").last.evaluate(
        "(ask) => { ask.scrollIntoView({ behavior: 'instant' }); ask.click();"
        " return document.getElementById('what-if').getBoundingClientRect().top; }"
    )

    assert abs(away) < 1
