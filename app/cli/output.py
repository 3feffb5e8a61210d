"""Output of commands: results to standard output, everything else to standard error."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from app.domain.flat_fields import PARAMETER

SHOWN_FAULTS: Final = 20
"""Faults of one answer that are printed at most."""
MANY_ROWS: Final = 500
"""Longer tables are laid out by simpler rules, which take a tenth of the time."""
_WIDE = 200
_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z

# Without a terminal that gives the width, lines may be long: programs read them.
out = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
notes = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def print_json(document: Any) -> None:
    """Print a document for programs."""
    sys.stdout.write(orjson.dumps(document, default=str, option=_JSON).decode() + "\n")


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for any output: bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode(errors="replace")


def print_note(text: str) -> None:
    """Print a message for people that is not a result."""
    notes.print(text, markup=False)


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%MZ")
        case list():
            return ", ".join(str(item) for item in value)
        case Mapping():
            return ", ".join(f"{name}: {_shown(part)}" for name, part in value.items())
        case _:
            return str(value)


def _header(name: str) -> str:
    return name if name.startswith(PARAMETER) else name.replace("_", " ")


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows with the same fields as a table."""
    if not rows:
        print_note("Nothing there.")
        return
    if len(rows) > MANY_ROWS:
        from app.cli.long_tables import lines_of

        cells = ([_shown(value) for value in row.values()] for row in rows)
        header, *lines = lines_of([_header(name) for name in rows[0]], cells, out)
        out.print(Text(header, "table.header"), soft_wrap=True)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        # An identifier that stands on two lines cannot be copied into the next command.
        is_whole = name.endswith("_id")
        table.add_column(escape(_header(name)), overflow="fold", no_wrap=is_whole)
    for row in rows:
        table.add_row(*(escape(_shown(value)) for value in row.values()))
    out.print(table)


def bytes_progress() -> Progress:
    """Return a progress bar that counts bytes; silent without a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=notes,
        disable=not notes.is_terminal,
    )


def share_progress() -> Progress:
    """Return a progress bar from 0 to 1; silent without a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[step]}"),
        TimeElapsedColumn(),
        console=notes,
        disable=not notes.is_terminal,
    )
