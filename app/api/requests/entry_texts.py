"""Reads entries of identical form from text into columns, without creating an object for each.

A program writes ten thousand entries with the same names in the same order and with the same
spacing: only the values differ. The text between two values is replaced by a mark, so that the
entries become one flat list, which takes a tenth of the objects to parse.

Everything is verified. A mark contains line breaks, which a JSON string may not, so no mark is
inside a value; there are as many marks as gaps between values, and no other comma, so each mark
is between two values; and the marks come in the order of the first entry. What remains between
the marks are JSON values. If any check fails, the document is parsed as a whole instead.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from app.api.schemas.forecasts import MAX_BATCH

Members = dict[str, dict[str, Sequence[Any]]]

_MAX_ENTRY_BYTES: Final = 1 << 12
"""Bytes of the longest entry that is read this way."""

# The spaces of JSON, which are fewer than those of `\s`.
_BEGIN: Final = re.compile(rb'"requests"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*(?=\{)')
_NEXT: Final = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^ \t\r\n{}\[\]:,"]+')
_MAX_DEPTH: Final = 2
_MIN_ENTRIES: Final = 2


@dataclass(frozen=True, slots=True)
class AlikeEntries:
    """Entries of identical form as columns.

    Parameters
    ----------
    document
        The document with only the first of its entries.
    members
        The values of all entries by group and name; values outside groups are under "".
    n_rows
        The number of entries.
    """

    document: dict[str, Any]
    members: Members
    n_rows: int


@dataclass(frozen=True, slots=True)
class _Form:
    """The group and name of each value of an entry, and the texts around the values."""

    owners: tuple[tuple[str, str], ...]
    around: tuple[bytes, ...]


def alike_entries(body: bytes) -> AlikeEntries | None:
    """Return the `requests` of a document as columns if all have the form of the first, else None.

    Examples
    --------
    >>> entries = b'{"ref": "a", "work": {"epochs": 1}}, {"ref": "b", "work": {"epochs": 2}}'
    >>> found = alike_entries(b'{"requests": [%b]}' % entries)
    >>> found.document, found.n_rows
    ({'requests': [{'ref': 'a', 'work': {'epochs': 1}}]}, 2)
    >>> found.members
    {'': {'ref': ['a', 'b']}, 'work': {'epochs': [1, 2]}}
    """
    begin = _BEGIN.search(body)
    if begin is None:
        return None
    first = _form_at(body, begin.end())
    comma = None if first is None else _NEXT.match(body, first[1])
    if first is None or comma is None:
        return None
    form, end = first
    prefix, suffix = form.around[0], form.around[-1]
    separator = suffix + comma.group() + prefix
    last = _form_at(body, body.rfind(separator) + len(separator) - len(prefix))
    if last is None or last[0] != form:
        return None
    document = _with_one_entry(body[: begin.end()], body[begin.end() : end], body[last[1] :])
    values = body[begin.end() + len(prefix) : last[1] - len(suffix)]
    columns = _columns(values, (*form.around[1:-1], separator))
    if document is None or columns is None:
        return None
    members: Members = {"": {}, **_groups(document["requests"][0])}
    for (group, name), column in zip(form.owners, columns, strict=True):
        members[group][name] = column
    return AlikeEntries(document, members, len(columns[0]))


def _groups(entry: Mapping[str, Any]) -> Members:
    return {group: {} for group, member in entry.items() if isinstance(member, dict)}


def _form_at(body: bytes, start: int) -> tuple[_Form, int] | None:
    """Return the form of the entry that begins at `start`, and where it ends."""
    owners, around = [], []
    depth, group, name, place, is_value = 0, "", "", start, False
    for match in _TOKEN.finditer(body, start, start + _MAX_ENTRY_BYTES):
        token = match.group()
        if token == b"{":
            depth += 1
            group = name if depth == _MAX_DEPTH else ""
        elif token == b"}":
            depth, group = depth - 1, ""
        elif token in b":,":
            is_value = token == b":"
            continue
        elif is_value:
            owners.append((group, name))
            around.append(body[place : match.start()])
            place = match.end()
        else:
            name = token[1:-1].decode(errors="replace")
        if not 0 < depth <= _MAX_DEPTH:
            break
        is_value = False
    form = _Form(tuple(owners), (*around, body[place : match.end()]))
    return (form, match.end()) if _has_form(form, body[start : match.end()]) else None


def _has_form(form: _Form, text: bytes) -> bool:
    """Whether an entry is a JSON object with exactly the values of the form, at least one."""
    try:
        entry = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(entry, dict):
        return False
    owners = [
        owner
        for name, member in entry.items()
        for owner in (
            [(name, member_name) for member_name in member]
            if isinstance(member, dict)
            else [("", name)]
        )
    ]
    return bool(owners) and owners == list(form.owners)


def _with_one_entry(head: bytes, entry: bytes, tail: bytes) -> dict[str, Any] | None:
    """Return the document with one entry, None unless this is its top-level `requests` list."""
    try:
        document, empty = orjson.loads(head + entry + tail), orjson.loads(head + tail)
        expected = [orjson.loads(entry)]
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or empty.get("requests") != []:
        return None
    return document if document["requests"] == expected else None


def _columns(values: bytes, between: Sequence[bytes]) -> list[list[Any]] | None:
    """Return the values of each member, None unless all entries have the same form.

    Parameters
    ----------
    values
        All entries from the first value to the last.
    between
        The text after each value of an entry and before the next.
    """
    marks = {text: mark for mark, text in enumerate(dict.fromkeys(between))}
    text, n_marks = values, 0
    for text_between in sorted(marks, key=len, reverse=True):  # one may be a suffix of another
        mark = b",\n%d,\n" % marks[text_between]
        if len(mark) == len(text_between):
            return None
        length = len(text)
        text = text.replace(text_between, mark)
        n_marks += (length - len(text)) // (len(text_between) - len(mark))
    try:
        flat = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
    width, n_rows = 2 * len(between), (n_marks + 1) // len(between)
    is_complete = n_rows * len(between) == n_marks + 1 and len(flat) == n_rows * width - 1
    if not is_complete or not _MIN_ENTRIES <= n_rows <= MAX_BATCH:
        return None
    for place, text_between in enumerate(between):
        observed = flat[2 * place + 1 :: width]
        if observed.count(marks[text_between]) != len(observed):
            return None
    return [flat[2 * place :: width] for place in range(len(between))]
