"""Texts joined of pieces: blocks are the rows one behind the other, of the length that is told."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.batches.column_texts import Piece
from app.api.batches.joined_texts import joined, joined_blocks
from app.domain.columns import Repeated


@pytest.mark.parametrize("n", [0, 1, 250, 251, 3000])
def test_blocks_are_the_rows_one_behind_the_other(n: int) -> None:
    numbers = [b"%d" % row for row in range(n)]
    pieces: list[Piece] = [b"[", numbers, b",", b"1,", [b"!"] * n, numbers, b"]"] if n else [b"[]"]

    found = joined_blocks(pieces, n)
    blocks = list(found.blocks)

    assert b"".join(blocks) == b"".join(joined(pieces, n))
    assert b"".join(blocks) == b"".join(b"[%d,1,!%d]" % (row, row) for row in range(n))
    assert found.n_bytes == sum(map(len, blocks))


def test_large_texts_are_joined_in_several_blocks() -> None:
    blocks = joined_blocks([b"x" * 1000, [b"%d" % row for row in range(1000)]], 1000)

    sizes = list(map(len, blocks.blocks))

    assert len(sizes) > 3
    assert sum(sizes) == blocks.n_bytes


texts = st.sampled_from([b"", b"a", b"bc", b'{"d":'])


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Piece], int]:
    """Return pieces of some rows, of which some repeat by the same places."""
    n = draw(st.integers(1, 70))
    shared = array("q", draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    pieces: list[Piece] = []
    kinds = st.sampled_from(["constant", "rows", "shared", "own", "alone"])
    for kind in draw(st.lists(kinds, max_size=9)):
        if kind == "constant":
            pieces.append(draw(texts))
        elif kind == "rows":
            pieces.append(draw(st.lists(texts, min_size=n, max_size=n)))
        elif kind == "alone":
            pieces.append(Repeated.alone(draw(texts), n))
        else:
            own = array("q", draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
            distinct = draw(st.lists(texts, min_size=3, max_size=3))
            pieces.append(Repeated(distinct, shared if kind == "shared" else own))
    return pieces, n


@given(columns())
def test_pieces_that_are_joined_to_their_neighbours_give_the_same_rows(
    made: tuple[list[Piece], int],
) -> None:
    pieces, n = made
    each = [[piece] * n if isinstance(piece, bytes) else list(piece) for piece in pieces]
    rows = [b"".join(row) for row in zip(*each, strict=True)] if each else [b""] * n

    blocks = joined_blocks(pieces, n)

    assert joined(pieces, n) == rows
    assert b"".join(blocks.blocks) == b"".join(rows)
    assert blocks.n_bytes == len(b"".join(rows))
