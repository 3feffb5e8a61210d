"""Joins the pieces of many texts: row by row, or in blocks that are built as they are sent."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np

from app.api.batches.column_texts import Piece
from app.domain.columns import Repeated

_BLOCK_BYTES: Final = 1 << 18
_MAX_BLOCK_ROWS: Final = 1000
"""Blocks are large enough to be worth a message, and small enough for a processor's cache."""

_FEW_ROWS: Final = 16
"""Up to this many rows form one block, which is built at once."""

_ROWS_A_TEXT: Final = 8
"""Joining a text to its neighbours once pays only if at least this many rows share it."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Concatenated texts in blocks that are built on demand; see `joined_blocks`."""

    n_bytes: int
    blocks: Iterator[bytes]


def joined(pieces: Sequence[Piece], n_rows: int) -> list[bytes]:
    """Return the text of each row.

    Examples
    --------
    >>> joined([b"[", [b"1", b"2"], b"]", [b"!", b"!"]], 2)
    [b'[1]!', b'[2]!']
    """
    columns = [
        repeat(piece, n_rows) if isinstance(piece, bytes) else piece
        for piece in _merged(pieces, n_rows)
    ]
    return list(map(b"".join, zip(*columns, strict=True)))


def joined_blocks(pieces: Sequence[Piece], n_rows: int) -> Blocks:
    """Return the concatenated texts of all rows, in blocks of some hundred rows.

    A block fits a processor's cache, as a megabyte and its copy would not; and there is never more
    than one block in memory.

    Examples
    --------
    >>> found = joined_blocks([b"[", [b"1", b"2"], b"]"], 2)
    >>> found.n_bytes, list(found.blocks)
    (6, [b'[1][2]'])
    """
    if n_rows <= _FEW_ROWS:
        text = b"".join(joined(pieces, n_rows))
        return Blocks(len(text), iter((text,)))
    merged = _merged(pieces, n_rows)
    n_bytes = sum(_length(piece, n_rows) for piece in merged)
    return Blocks(n_bytes, _blocks(merged, n_rows, n_bytes))


def _blocks(merged: Sequence[Piece], n_rows: int, n_bytes: int) -> Iterator[bytes]:
    size = min(-(-n_rows * _BLOCK_BYTES // max(n_bytes, 1)), n_rows, _MAX_BLOCK_ROWS)
    width = len(merged)
    columns = [(place, piece) for place, piece in enumerate(merged) if not isinstance(piece, bytes)]
    parts = [piece if isinstance(piece, bytes) else b"" for piece in merged] * size
    for start in range(0, n_rows, size or 1):
        del parts[(n_rows - start) * width :]
        for place, column in columns:
            parts[place::width] = _rows(column, slice(start, start + size))
        yield b"".join(parts)


def _rows(column: Sequence[bytes], rows: slice) -> Iterable[bytes]:
    if isinstance(column, Repeated):
        return map(column.distinct.__getitem__, column.places[rows])
    return column[rows]


def _length(piece: Piece, n_rows: int) -> int:
    if isinstance(piece, bytes):
        return len(piece) * n_rows
    if not isinstance(piece, Repeated):
        return len(b"".join(piece))
    lengths = np.fromiter(map(len, piece.distinct), dtype=np.int64)
    return int(lengths.take(np.frombuffer(piece.places, dtype=np.int64)).sum())


def _merged(pieces: Sequence[Piece], n_rows: int) -> list[Piece]:
    """Return the pieces, with those that many rows share joined to their neighbours."""
    merged: list[Piece] = []
    constant = b""
    for original in pieces:
        if isinstance(original, bytes):
            constant += original
            continue
        piece = _simplified(original, n_rows)
        if isinstance(piece, bytes):
            constant += piece
        else:
            merged += [constant, piece] if constant else [piece]
            constant = b""
    max_texts = n_rows // _ROWS_A_TEXT
    return _folded([*merged, constant], max_texts) if n_rows > _FEW_ROWS else [*merged, constant]


def _simplified(piece: Sequence[bytes], n_rows: int) -> Piece:
    if isinstance(piece, list):  # checked first because it is cheapest
        is_shared = piece[0] == piece[-1] and piece.count(piece[0]) == n_rows
        return piece[0] if is_shared else piece
    if isinstance(piece, Repeated) and len(piece.distinct) == 1:
        text: bytes = piece.distinct[0]
        return text
    return piece


def _folded(pieces: Sequence[Piece], max_texts: int) -> list[Piece]:
    """Return the pieces, with columns of up to `max_texts` distinct texts joined to others."""
    folded = [pieces[0]]
    for piece in pieces[1:]:
        concatenated = _concatenated(folded[-1], piece, max_texts)
        if concatenated is None:
            folded.append(piece)
        else:
            folded[-1] = concatenated
    return folded


def _concatenated(left: Piece, right: Piece, max_texts: int) -> Piece | None:
    """Return two adjacent pieces as one, None if joining costs more than it saves."""
    if isinstance(right, Repeated) and len(right.distinct) <= max_texts:
        if isinstance(left, bytes):
            return right.made(left.__add__)
        if isinstance(left, Repeated):
            return _product(left, right, max_texts)
    if isinstance(left, Repeated) and isinstance(right, bytes) and len(left.distinct) <= max_texts:
        return left.made(lambda text: text + right)
    return None


def _product(
    left: Repeated[bytes], right: Repeated[bytes], max_texts: int
) -> Repeated[bytes] | None:
    if left.places is right.places:
        both = zip(left.distinct, right.distinct, strict=True)
        return Repeated(list(map(b"".join, both)), left.places)
    if len(left.distinct) * len(right.distinct) > max_texts:
        return None
    texts = [first + second for first in left.distinct for second in right.distinct]
    first, second = (np.frombuffer(column.places, dtype=np.int64) for column in (left, right))
    places = first * len(right.distinct) + second
    return Repeated(texts, array("q", places.tobytes()))
