"""Tables of many rows look like those of few, and lose nothing where they are too wide."""

import sys
from io import StringIO

import pytest
from rich.console import Console

from app.cli import output
from app.cli.long_tables import lines_of

ROWS: list[dict[str, object]] = [
    {
        "at": f"2026-11-{number % 28 + 1:02} 10:00",
        "key_id": None if number % 3 else "tf_1",
        "param.seq_len": number**2,
        "detail": ["plain", "größer 漢字", "[bold]x[/]", "", "two\nlines", "a\tb"][number % 6],
    }
    for number in range(60)
]


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    shown = Console(file=StringIO(), width=80, highlight=False)
    monkeypatch.setattr(output, "out", shown)
    return shown


def printed(
    console: Console, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]]
) -> str:
    written = StringIO()
    console.file = written
    monkeypatch.setattr(sys, "stdout", written)
    output.print_table(rows)
    return written.getvalue()


def test_many_rows_look_like_few(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    few = printed(console, monkeypatch, ROWS)
    monkeypatch.setattr(output, "MANY_ROWS", 10)

    many = printed(console, monkeypatch, ROWS)

    assert [line.rstrip() for line in many.splitlines()] == [
        line.rstrip() for line in few.splitlines()
    ]


@pytest.mark.parametrize("width", [12, 20, 40, 79])
def test_what_is_too_wide_is_folded_in_its_column(width: int) -> None:
    words = "a reason of several words and one_word_that_is_longer_than_any_column 漢字" * 3
    rows = [["run.exclude", words], ["run.exclude", "short"]]

    lines = list(lines_of(["action", "detail"], rows, Console(width=width)))

    assert {len(line) for line in lines if line.isascii()} == {width}
    folded = "".join("".join(lines).split())
    assert sorted(folded) == sorted(
        "".join(["action", "detail", *rows[0], *rows[1]]).replace(" ", "")
    )


def test_columns_that_fit_stay_whole() -> None:
    rows = [["2026-11-28 20:18", "run.upload", "word " * 40]]

    _, first, *_ = lines_of(["at", "action", "detail"], rows, Console(width=60))

    assert first.startswith("2026-11-28 20:18  run.upload  word word")
