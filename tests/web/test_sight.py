"""What has the focus, where a control ends and what is open can be seen; what is tapped is hit."""

import re

import pytest
from playwright.sync_api import expect

from tests.support import patient_http
from tests.web.conftest import MARKUP, PUBLISHED, OpenPage, answer_of, drop, publish

pytestmark = pytest.mark.browser

_BROKEN_WORDS = """elements => elements.flatMap(element => {
  const text = element.firstChild;
  return [...text.data.matchAll(/\\S+/g)].filter(word => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map(rect => Math.round(rect.bottom))).size > 1;
  }).map(word => word[0]);
})"""


def test_keyboard_focus_of_a_summary_is_plain_to_see(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}")
    answer_of(page)
    page.locator("#answer .curl summary").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")

    focused = page.evaluate(
        "(() => { const style = getComputedStyle(document.activeElement);"
        " return [document.activeElement.tagName, style.outlineWidth, style.outlineColor]; })()"
    )

    assert focused == ["SUMMARY", "2px", "rgb(15, 118, 110)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_summary_that_is_open_reads_as_well_as_a_closed_one(
    published_service: str, open_page: OpenPage, scheme: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", scheme=scheme)
    answer_of(page)
    summary = page.locator("#question summary")
    colour = "(element) => getComputedStyle(element).color"
    closed = summary.evaluate(colour)

    summary.click()
    page.locator("#question [name=provider]").focus()

    expect(page.locator("#question details")).to_have_attribute("open", "")
    expect(summary).to_have_css("color", closed)


def _luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(...)`, as WCAG 2.2 defines it."""
    shares = [int(channel) / 255 for channel in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("control", ["[name=workers]", "#question select", "[name=within]"])
def test_edge_of_a_control_stands_out(
    published_service: str, open_page: OpenPage, scheme: str, control: str
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", scheme=scheme)
    answer_of(page)

    edge, panel = page.locator(control).first.evaluate(
        "(element) => [getComputedStyle(element).borderTopColor,"
        " getComputedStyle(element.closest('.panel')).backgroundColor]"
    )

    darker, lighter = sorted([_luminance(edge), _luminance(panel)])
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_finger_hits_what_it_aims_at(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=390, touch=True)
    answer_of(page)
    page.locator("#add").click()
    ask = page.locator("#front td > button").first
    expect(ask).to_be_visible()

    heights = page.locator("summary").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().height)"
    )
    near = "(button, away) => { button.scrollIntoView({ block: 'center', behavior: 'instant' });"
    near += " const box = button.getBoundingClientRect(); return document.elementFromPoint("
    near += "box.x + box.width / 2, box.y + box.height / 2 + away) === button; }"

    assert min(heights) >= 30
    for button in (ask, page.locator("#comparison .remove")):
        assert button.evaluate(near, 16)
        assert button.evaluate(near, -16)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_long_words_need_no_sideways_scrolling(empty_service: str, open_page: OpenPage) -> None:
    word = "net_" * 24
    page = open_page(f"{empty_service}/", width=390)
    drop(page, f"{word}.csv", f"workload,duration_seconds\n{word},5\n")
    chip = page.locator("#upload-result .chips a")
    expect(chip).to_have_text(word)
    too_wide = "document.documentElement.scrollWidth > window.innerWidth"

    assert not page.evaluate(too_wide)

    told = {"description": f"https://tracking.example/{word}"}
    patient_http.put(f"{empty_service}/v1/workloads/{word}", json=told).raise_for_status()
    chip.click()
    expect(page.locator("#facts")).to_contain_text(word)

    assert not page.evaluate(too_wide)


def test_influential_runs_are_named_in_full(published_service: str, open_page: OpenPage) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=390)
    names = page.locator("#answer .run-name")
    answer_of(page)
    expect(names.first).to_contain_text(MARKUP)

    cut = "all => all.filter((each) => each.scrollWidth > each.clientWidth).length"
    assert names.evaluate_all(cut) == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_long_names_take_some_lines_of_a_phones_list(
    empty_service: str, open_page: OpenPage
) -> None:
    names = ["b-" * 49 + "b", "d_" * 49 + "d"]
    runs = [{"workload": name, "duration_seconds": 5} for name in names]
    patient_http.post(f"{empty_service}/v1/runs", json=runs).raise_for_status()
    page = open_page(f"{empty_service}/", width=390)

    for name in names:
        box = page.get_by_role("link", name=name).bounding_box()
        assert box is not None
        assert 140 < box["width"] < 300


@pytest.mark.parametrize("width", [500, 768])
def test_long_name_of_an_axis_leaves_room_beside_it(
    empty_service: str, open_page: OpenPage, width: int
) -> None:
    name = "maximum_steps_of_gradient_accumulation_before_the_optimizer_steps_again"
    runs = [
        {"workload": "long", "parameters": {name: steps}, "duration_seconds": 10 + steps}
        for steps in (1, 2, 4)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/long", width=width)
    answer_of(page)

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_narrow_phone_breaks_no_word_of_the_card(
    published_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{published_service}/workloads/{PUBLISHED}", width=320)
    names = page.locator("#card .meters dt")
    expect(names.first).to_be_visible()

    assert names.evaluate_all(_BROKEN_WORDS) == []


def test_tip_of_a_long_name_stays_inside_the_chart(empty_service: str, open_page: OpenPage) -> None:
    runs = [
        {
            "workload": "long",
            "configuration": {"gpu_type": "G" * 100, "workers": workers},
            "duration_seconds": 100 / workers + 5,
        }
        for workers in (1, 2, 4)
    ]
    publish(empty_service, runs)
    page = open_page(f"{empty_service}/workloads/long?price_per_hour=3", width=320)
    plot = page.locator("#front-plot")
    expect(plot.locator("svg path").first).to_be_attached()
    x, y = page.evaluate(
        "(() => { const chart = echarts.getInstanceByDom(document.getElementById('front-plot'));"
        " const [first] = chart.getOption().series[1].data;"
        " return chart.convertToPixel({ seriesIndex: 1 }, first.value); })()"
    )

    plot.hover(position={"x": x, "y": y})

    name = plot.locator("div > div", has_text="G" * 100).last
    expect(name).to_be_visible()
    inside, outside = name.bounding_box(), plot.bounding_box()
    assert inside is not None
    assert outside is not None
    assert inside["x"] + inside["width"] <= outside["x"] + outside["width"]
