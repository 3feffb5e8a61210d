"""The commands that pages show run as they stand, in reading order, and are answered as shown."""

import itertools
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import running_service

pytestmark = pytest.mark.lengthy

_ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "docs/api.md", "docs/pricing.md")
_BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^\$ ", re.MULTILINE)
_IDENTIFIER = re.compile(r"\b[a-z]+_[0-9a-z]{25}\b")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?")
_NUMBER = re.compile(r"\d+(,\d{3})*(\.\d+)?")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\.\.\.|[\[\]{}:]|[^\s\[\]{}:,"]+')
_ELLIPSIS = "..."
_TOLD_LINES = 7
"""Of an answer for people; those below are lists of warnings and reasons."""


def _commands(page: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a page that needs nothing but the service, with the answer shown."""
    text = (_ROOT / page).read_text(encoding="utf-8")
    for language, block in _BLOCK.findall(text):
        if language == "sh" and block.startswith("curl "):
            yield block, ""
        if language == "console" and block.startswith("$ c"):
            yield from (_parts(part) for part in _PROMPT.split(block)[1:])


def _parts(shown: str) -> tuple[str, str]:
    """Split what follows a prompt after the line that closes the last quotation mark."""
    lines = shown.splitlines()
    end = next(end for end in range(1, len(lines) + 1) if _is_closed("\n".join(lines[:end])))
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def _is_closed(command: str) -> bool:
    return command.count("'") % 2 == 0


def _plain(text: str) -> str:
    """Return a text without what changes with the engine, the day and the database."""
    return _NUMBER.sub("0", _INSTANT.sub("DAY", _IDENTIFIER.sub("ID", text)))


def _tokens(document: str) -> list[str]:
    """Return the tokens of JSON without commas; of numbers, those of a status alone are kept."""
    tokens = _TOKEN.findall(document)
    return [
        token if before == ['"status"', ":"] else _plain(token)
        for before, token in zip(
            ([*tokens[max(place - 2, 0) : place]] for place in range(len(tokens))),
            tokens,
            strict=True,
        )
    ]


def _is_cut_from(shown: list[str], answer: list[str]) -> bool:
    """Whether an answer becomes what is shown when runs of its tokens are cut at `...`."""
    groups = itertools.groupby(shown, lambda token: token == _ELLIPSIS)
    parts = [list(part) for is_cut, part in groups if not is_cut]
    first, *others = parts
    if answer[: len(first)] != first or answer[len(answer) - len(parts[-1]) :] != parts[-1]:
        return False
    place = len(first)
    for part in others:
        found = [
            start
            for start in range(place, len(answer) - len(part) + 1)
            if answer[start : start + len(part)] == part
        ]
        if not found:
            return False
        place = found[0] + len(part)
    return len(others) > 0 or place == len(answer)


def _opening(line: str) -> list[str]:
    """Return the first words of a line for people, without units."""
    words = re.findall(r"[A-Za-z][A-Za-z_-]+", _plain(line))
    return [word for word in words if word not in {"ms", "min", "day", "days", "DAY"}][:6]


def _figures(line: str) -> list[float]:
    undated = _INSTANT.sub("", _IDENTIFIER.sub("", line))
    return [float(number[0].replace(",", "")) for number in _NUMBER.finditer(undated)]


def _assert_answered(command: str, shown: str, answer: str) -> None:
    if "text/plain" in command:
        kept = itertools.takewhile(lambda line: line != _ELLIPSIS, shown.splitlines())
        told, lines = [*kept][:_TOLD_LINES], answer.splitlines()
        assert [_opening(line) for line in lines[: len(told)]] == [_opening(line) for line in told]
        for line, expected in zip(lines, told, strict=False):
            assert _figures(line) == pytest.approx(_figures(expected), rel=0.05), line
    elif shown.startswith("{"):
        assert _is_cut_from(_tokens(shown), _tokens(answer)), f"{command}\n{answer}"
    elif shown.isdecimal():
        assert answer.strip() == shown, command
    else:
        assert _plain(answer).splitlines() == _plain(shown).splitlines(), command


@pytest.mark.parametrize("page", _PAGES)
def test_commands_of_a_page_are_answered_as_it_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(_ROOT / "examples")
    named: dict[str, str] = {}
    with running_service(
        f"sqlite:///{tmp_path / 'shown.db'}", "--with-fitter", "--migrate"
    ) as running:
        address = running.url.removeprefix("http://")
        for command, shown in _commands(page):
            if command.startswith("cat "):
                (tmp_path / command.removeprefix("cat ")).write_text(f"{shown}\n")
            typed = _with_names(command.replace("localhost:8000", address), named)

            process = subprocess.run(
                ["bash", "-c", typed],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "NO_PROXY": "*"},
                capture_output=True,
                text=True,
                check=False,
            )

            assert process.returncode == 0, process.stderr
            if shown:
                _assert_answered(command, shown, process.stdout)
                named |= _renamed(shown, process.stdout)


def _with_names(command: str, named: dict[str, str]) -> str:
    return _IDENTIFIER.sub(lambda found: named.get(found[0], found[0]), command)


def _renamed(shown: str, answer: str) -> dict[str, str]:
    """Return the identifiers of an answer by those that stand in their places on the page."""
    return {
        told[0]: got[0]
        for told, got in zip(
            _IDENTIFIER.finditer(shown), _IDENTIFIER.finditer(answer), strict=False
        )
    }


def test_pages_show_more_than_figures() -> None:
    shown = {page: [command for command, shown in _commands(page) if shown] for page in _PAGES}

    assert {page: len(commands) >= 4 for page, commands in shown.items()} == dict.fromkeys(
        _PAGES, True
    )
    assert any("/fits" in command for command in shown["docs/api.md"])
    assert any(command.startswith("cat ") for command in shown["docs/pricing.md"])


@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        ('{"a":1, ...}', True),
        ('{"a":2, "b":{"c":"x y"}, "status": 404}', True),
        ('{..., "b":{...}, "status":404}', True),
        ('{"b":{"c":"x y"}, ...}', False),
        ('{"a":1, "d":..., "status":404}', False),
        ('{"a":1, ..., "status":422}', False),
        ('{"a":1}', False),
    ],
)
def test_what_is_cut_is_marked(shown: str, *, is_shown: bool) -> None:
    answer = '{"a": 7.25, "b": {"c": "x y"}, "status": 404}'

    assert _is_cut_from(_tokens(shown), _tokens(answer)) is is_shown
