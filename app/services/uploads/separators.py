"""Recognises tables as spreadsheets save them, and what is no table of comma-separated text."""

from collections.abc import Iterator, Sequence
from typing import Final

from app.domain.errors import InvalidRequestError

_NO_TEXT: Final = {
    b"PK\x03\x04": "a spreadsheet or another zip archive",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"PAR1": "a Parquet table",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
"""Formats by their first bytes, with which no records as UTF-8 text begin."""
_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
KEEPING_LINE_BREAKS: Final = "curl keeps line breaks with --data-binary, not with -d"
_SEPARATOR_LINE: Final = "sep="
"""First cell of `sep=,`, a line for spreadsheets that states the separator."""


def refuse_other_formats(head: bytes) -> None:
    """Refuse a file that is no text in UTF-8, by its first four bytes.

    Raises
    ------
    InvalidRequestError
        If it begins as a compressed file, a spreadsheet, a Parquet table or text in UTF-16 does.
    """
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise InvalidRequestError(
                f"The body is compressed: compress it once, and send it with the header"
                f" Content-Encoding: {name}."
            )
    found = next((name for magic, name in _NO_TEXT.items() if head.startswith(magic)), None)
    if found is None and b"\0" in head[:2]:
        found = "text in UTF-16"
    if found is not None:
        raise InvalidRequestError(f"The body is {found}: send text in UTF-8; save a table as CSV.")


def refuse_lost_line_breaks(first_line: str) -> None:
    """Refuse a table whose first line is all of it, as clients leave it that join lines.

    Raises
    ------
    InvalidRequestError
        If the line has text and does not end.
    """
    if first_line.strip() and first_line[-1] not in "\r\n":
        raise InvalidRequestError(
            "The file has no line breaks. Put the header and each row on a line of its own;"
            f" {KEEPING_LINE_BREAKS}."
        )


def read_names(lines: Iterator[list[str]]) -> tuple[list[str], int]:
    """Return the names of a table's columns, and their number with nameless ones at the end.

    Lines of empty cells before the header, and one that only states the separator, are passed over.

    Raises
    ------
    InvalidRequestError
        If there is no header, or its columns are not separated by commas.
    """
    filled = filter(is_filled, lines)
    names = [name.strip() for name in next(filled, [])]
    if names[:1] == [_SEPARATOR_LINE] and len(names) > 1 and not any(names[1:]):
        names = [name.strip() for name in next(filled, [])]
    width = len(names)
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InvalidRequestError("The file has no header line with column names.")
    _refuse_other_separators(names)
    return names, width


def is_filled(cells: Sequence[str]) -> bool:
    """Return whether a line is a row: neither empty, nor nothing but blanks."""
    return any(cells) and (len(cells) > 1 or not cells[0].isspace())


def without_empty_end(cells: list[str], width: int) -> list[str]:
    """Return the cells of a row without those beyond the named columns, if these are empty."""
    return cells if any(cell.strip() for cell in cells[width:]) else cells[:width]


def _refuse_other_separators(names: Sequence[str]) -> None:
    if len(names) == 1 and (found := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise InvalidRequestError(
            f"The columns are separated by {found!r}. Separate them by commas (and write decimals"
            " with a point)."
        )
