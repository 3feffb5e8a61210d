"""The pages of decisions are numbered without gaps, each number once."""

from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs" / "adr"


def test_decisions_are_numbered_once_and_without_gaps() -> None:
    pages = sorted(_PAGES.glob("*.md"))

    for number, page in enumerate(pages, start=1):
        assert page.name.startswith(f"{number:04d}-")
        assert page.read_text().startswith(f"# {number}. ")
