"""Writes JSON column by column: shared text is written once, numbers all in one call."""

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import add
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from app.api.schemas.quantities import LARGEST_EXACT, plain_number
from app.domain.columns import Repeated

Value = TypeVar("Value", bound=Hashable)
Piece = bytes | Sequence[bytes]
"""A part of each row's text: one text for all rows, or one per row."""

_FIFTEEN_DIGITS: Final = 10**14
"""Below this an integer has at most 15 digits with one appended: floats round-trip these."""

_MAX_DECIMALS: Final = 18
_POWERS: Final = np.array([float(f"1e{power}") for power in range(_MAX_DECIMALS + 1)])
_CACHE_SIZE: Final = 1024
"""Member names whose texts are cached."""

_FEW_NUMBERS: Final = 64
"""Up to this many numbers are written faster one by one than through an array."""

_LONG, _SAMPLE, _FEW_VALUES = 1000, 256, 64

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def number_texts(numbers: Sequence[float | None]) -> list[bytes]:
    """Return numbers as JSON; None and NaN become null.

    Examples
    --------
    >>> number_texts([0.5, 3, None])
    [b'0.5', b'3', b'null']
    """
    return orjson.dumps(numbers)[1:-1].split(b",") if len(numbers) else []


def plain_texts(numbers: Sequence[float | None]) -> Piece:
    """Return numbers as JSON, whole numbers without a fraction; see `plain_number`.

    Examples
    --------
    >>> plain_texts([3.0, 0.5, None])
    [b'3', b'0.5', b'null']
    """
    if isinstance(numbers, Repeated):
        return numbers.made(_plain_text)
    if 0 < len(numbers) <= _FEW_NUMBERS:
        if numbers.count(numbers[0]) == len(numbers):
            return _plain_text(numbers[0])
        return list(map(_plain_text, numbers))
    values = np.array(numbers, dtype=np.float64) + 0.0  # turns -0.0 into 0.0
    counts = _small_counts(values)
    if counts is not None:
        return counts.made(orjson.dumps)
    numbers = as_repeated(numbers)
    if isinstance(numbers, Repeated):
        return numbers.made(_plain_text)
    missing = np.isnan(values)
    if missing.all():
        return b"null"
    if np.abs(values[~missing]).max() > LARGEST_EXACT:
        return [orjson.dumps(plain_number(value)) for value in values.tolist()]
    texts = orjson.dumps(values.tolist())[1:-1] + b","
    return texts.replace(b".0,", b",")[:-1].split(b",")


def _small_counts(values: FloatArray) -> Repeated[int] | None:
    """Return whole numbers below the number of rows as a column; None if there are others.

    Without a dictionary of ten thousand values this takes a fifth of the time of `as_repeated`.
    """
    if not 0 <= values.min(initial=0.0) <= values.max(initial=0.0) < len(values):
        return None
    whole = values.astype(np.int64)
    if (whole != values).any():
        return None
    is_present = np.bincount(whole) > 0
    places = (np.cumsum(is_present) - 1).take(whole)
    return Repeated(np.flatnonzero(is_present).tolist(), array("q", places.tobytes()))


def _plain_text(number: float | None) -> bytes:
    # Adding 0.0 turns -0.0 into 0.0.
    return b"null" if number is None else orjson.dumps(plain_number(number + 0.0))


def as_repeated(values: Sequence[Value]) -> Sequence[Value]:
    """Return a long column as `Repeated` if a sample suggests that it has few distinct values.

    Examples
    --------
    >>> as_repeated([0.5, 2.0] * 500).distinct, as_repeated([0.5, 2.0])
    ([0.5, 2.0], [0.5, 2.0])
    """
    if isinstance(values, Repeated) or len(values) < _LONG:
        return values
    return Repeated.equal(values) if len(set(values[:_SAMPLE])) <= _FEW_VALUES else values


def row_texts(piece: Piece, n_rows: int) -> list[bytes]:
    """Return a piece as one text per row."""
    return [piece] * n_rows if isinstance(piece, bytes) else list(piece)


def distinct_texts(values: Sequence[Value], write: Callable[[Value], Any]) -> Piece:
    """Return the JSON of `write(value)` for each value; equal values are written once.

    Examples
    --------
    >>> list(distinct_texts(["a", "b", "a"], str.upper))
    [b'"A"', b'"B"', b'"A"']
    """
    if isinstance(values, Repeated):
        column = values
    elif values[:1] == values[-1:] and values.count(values[0]) == len(values):
        return orjson.dumps(write(values[0]))
    else:
        column = Repeated.equal(values)
    return column.made(lambda value: orjson.dumps(write(value)))


def shared_texts(objects: Sequence[object], write: Callable[[Any], Any]) -> Piece:
    """Return the JSON of `write(shared)` for each object; a repeated object is written once."""
    return Repeated.of(objects).made(lambda shared: orjson.dumps(write(shared)))


def parts_around(document: object, holes: Sequence[str]) -> list[bytes]:
    """Return the JSON of a document split at its holes: before, between and after them.

    Parameters
    ----------
    document
        Contains each hole once, in order: a number or a text that occurs nowhere else in it.
    holes
        The JSON text of each hole.

    Examples
    --------
    >>> parts_around({"a": -1, "b": [-2]}, ["-1", "-2"])
    [b'{"a":', b',"b":[', b']}']
    """
    text, parts = orjson.dumps(document), []
    for hole in holes:
        before, _, text = text.partition(hole.encode())
        parts.append(before)
    return [*parts, text]


def parts_of(parts: Repeated[Sequence[bytes]]) -> list[Piece]:
    """Return one piece per part, from documents that all have the same number of parts.

    Examples
    --------
    >>> one, other = [b"[", b"]"], [b"[", b"!]"]
    >>> before, behind = parts_of(Repeated.of([one, other, one]))
    >>> before, list(behind)
    (b'[', [b']', b'!]', b']'])
    """
    return [
        column[0] if len(set(column)) == 1 else Repeated(column, parts.places)
        for column in zip(*parts.distinct, strict=True)
    ]


def where(is_present: Repeated[bool], make: Callable[[], Sequence[bytes]]) -> Piece:
    """Return the texts of all rows from `make`, emptied in rows where `is_present` is false.

    Examples
    --------
    >>> where(Repeated.of([True, False]), lambda: [b"1", b"2"])
    [b'1', b'']
    """
    if not any(is_present.distinct):
        return b""
    texts = make()
    if all(is_present.distinct):
        return texts
    return [text if is_shown else b"" for text, is_shown in zip(texts, is_present, strict=True)]


def overwritten(
    pieces: Iterable[Piece], texts: Mapping[int, bytes], n_rows: int
) -> Sequence[Piece]:
    """Return pieces in which the given rows are replaced by texts of their own.

    Examples
    --------
    >>> overwritten([b"[", [b"1", b"2"], b"]"], {1: b"null"}, 2)
    [[b'[', b'null'], [b'1', b''], [b']', b'']]
    """
    if not texts:
        return list(pieces)
    columns = [row_texts(piece, n_rows) for piece in pieces]
    for row, text in texts.items():
        for column in columns:
            column[row] = b""
        columns[0][row] = text
    return columns


def filled(parts: Sequence[Piece], columns: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the parts of a document with the columns in its holes."""
    for part, column in zip(parts, (*columns, b""), strict=True):
        yield part
        yield column


def object_pieces(members: Mapping[str, Sequence[Piece]]) -> list[Piece]:
    """Return the pieces of a JSON object whose members are given as pieces."""
    pieces: list[Piece] = []
    for name, member in members.items():
        pieces += [_opening(name, is_first=not pieces), *member]
    return [*pieces, b"}" if pieces else b"{}"]


@lru_cache(maxsize=_CACHE_SIZE)
def _opening(name: str, *, is_first: bool) -> bytes:
    """Return the text before the value of a member."""
    return b"%b%b:" % (b"{" if is_first else b",", orjson.dumps(name))


def decimal_texts(units: IntArray, decimals: IntArray) -> list[bytes]:
    """Return units / 10**decimals with all their decimals; `decimals` is at least 1.

    Examples
    --------
    >>> decimal_texts(np.array([160, 5, 1234]), np.array([3, 2, 1]))
    [b'0.160', b'0.05', b'123.4']
    """
    # A 5 appended as last digit preserves trailing zeros and is removed again.
    if units.max(initial=0) < _FIFTEEN_DIGITS and decimals.max(initial=0) < _MAX_DECIMALS:
        texts = orjson.dumps(((10 * units + 5) / _POWERS.take(decimals + 1)).tolist())[1:-1]
        if texts and b"e" not in texts:
            return (texts + b",").replace(b"5,", b",")[:-1].split(b",")
    power = 10**decimals
    whole = number_texts((units // power).tolist())
    # The added leading 1 preserves the zeros after it and is dropped.
    fractions = [b".%b" % digits[1:] for digits in number_texts((units % power + power).tolist())]
    return list(map(add, whole, fractions))
