"""Lays out tables of many rows: as `rich` does, in a tenth of its time."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.control import strip_control_codes
from rich.text import Text

_GAP: Final = "  "


def lines_of(
    header: Sequence[str], rows: Iterable[Sequence[str]], console: Console
) -> Iterator[str]:
    """Yield the lines of a table, the header first; what is too wide is folded in its column.

    Parameters
    ----------
    header
        The names of the columns.
    rows
        The cells, as many as columns in each row.
    console
        Where the table is shown, which has a width.
    """
    clean = [tuple(map(strip_control_codes, row)) for row in (header, *rows)]
    columns = zip(*clean, strict=True)
    widths = _fitting([max(map(_width, set(cells))) for cells in columns], console.width)
    # Cells of a table repeat: each is laid out once.
    padded: list[dict[str, list[str]]] = [{} for _ in widths]
    for row in clean:
        pieces = [
            known.get(cell) or known.setdefault(cell, _padded(cell, width, console))
            for cell, width, known in zip(row, widths, padded, strict=True)
        ]
        if all(len(piece) == 1 for piece in pieces):
            yield _GAP.join([piece[0] for piece in pieces])
            continue
        blanks = [" " * width for width in widths]
        for line in zip_longest(*pieces):
            shown = zip(line, blanks, strict=True)
            yield _GAP.join([blank if part is None else part for part, blank in shown])


def _width(cell: str) -> int:
    if cell.isascii() and "\n" not in cell:
        return len(cell.expandtabs())
    return max(map(cell_len, cell.expandtabs().splitlines()), default=0)


def _fitting(widths: Sequence[int], available: int) -> list[int]:
    """Return the widths of columns; the widest are made as narrow as it takes, at least 1."""
    room = max(available - len(_GAP) * (len(widths) - 1), len(widths))
    fitting = [max(width, 1) for width in widths]
    while (excess := sum(fitting) - room) > 0:
        widest = max(fitting)
        others = [width for width in fitting if width < widest]
        n_widest = len(fitting) - len(others)
        target = max(max(others, default=1), widest - -(-excess // n_widest), 1)
        fitting = [min(width, target) for width in fitting]
    return fitting


def _padded(cell: str, width: int, console: Console) -> list[str]:
    """Return the lines of a cell in a column, all of its width."""
    plain = cell.expandtabs()
    if _width(plain) <= width:
        return [set_cell_size(line, width) for line in plain.splitlines() or [""]]
    if plain.isascii() and plain.isprintable():
        lines = textwrap.wrap(plain, width)
    else:
        lines = [line.plain for line in Text(plain).wrap(console, width, overflow="fold")]
    return [set_cell_size(line, width) for line in lines]
