"""The API's reference and the list of problem codes read well on any screen."""

import pytest

from tests.web.conftest import OpenPage

pytestmark = pytest.mark.browser

_BROKEN_WORDS = """() => [...document.querySelectorAll("th, td")].filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.bottom)));
  return /^\\w+$/.test(cell.textContent) && !cell.querySelector("wbr") && lines.size > 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.parametrize("path", ["/docs", "/problems"])
@pytest.mark.parametrize("width", [390, 1440])
def test_words_of_tables_stay_whole(
    empty_service: str, open_page: OpenPage, path: str, width: int
) -> None:
    page = open_page(f"{empty_service}{path}", width=width)

    assert page.locator("td").count() > 0
    assert page.evaluate(_BROKEN_WORDS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_summary_of_each_request_is_seen_without_scrolling(
    empty_service: str, open_page: OpenPage
) -> None:
    page = open_page(f"{empty_service}/docs", width=390)

    table = page.locator("table").first

    assert table.evaluate("(element) => element.scrollWidth <= element.clientWidth")
