"""The pages of decisions are numbered without gaps, each number once."""

from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs" / "adr"


def test_decisions_are_numbered_once_and_without_gaps() -> None:
    numbers = sorted(int(page.name[:4]) for page in _PAGES.glob("*.md"))

    assert numbers == list(range(1, len(numbers) + 1))
