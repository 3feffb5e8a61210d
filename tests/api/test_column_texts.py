"""Texts written in columns: each is what its value alone would be written as."""

from decimal import Decimal

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.api.batches.column_texts import decimal_texts, plain_texts, row_texts
from app.api.schemas.quantities import plain_number
from app.domain.columns import Repeated
from app.pricing.billing import MAX_DECIMALS

amounts = st.tuples(
    st.integers(0, 10**18) | st.integers(0, 10**15) | st.integers(0, 1000),
    st.integers(1, MAX_DECIMALS),
)


@given(st.lists(amounts, min_size=1))
@example([(10**14 - 1, 1), (7, MAX_DECIMALS)])
@example([(98_765_432_109_876_543, 2), (0, 1)])
@example([(5, 6), (55, 5)])
def test_amounts_are_written_with_all_their_decimals(asked: list[tuple[int, int]]) -> None:
    units, decimals = (np.array(column, dtype=np.int64) for column in zip(*asked, strict=True))

    texts = decimal_texts(units, decimals)

    assert texts == [f"{Decimal(unit).scaleb(-places):f}".encode() for unit, places in asked]


numbers = st.lists(
    st.sampled_from([0.0, -0.0, 1, 2.0, 64.0, 99.0, 100.0, 0.5, -1.0, 1e15, 1e17, None])
    | st.integers(0, 200)
    | st.floats(allow_nan=False, allow_infinity=False),
    min_size=1,
)


@given(numbers, st.sampled_from([1, 40, 1000]))
def test_whole_numbers_are_written_without_a_fraction(
    values: list[float | None], times: int
) -> None:
    column = values * times
    expected = [
        b"null" if value is None else orjson.dumps(plain_number(value + 0.0)) for value in column
    ]

    assert row_texts(plain_texts(column), len(column)) == expected
    assert row_texts(plain_texts(Repeated.of(column)), len(column)) == expected


@pytest.mark.parametrize("n_distinct", [1, 7, 300])
def test_small_counts_are_written_once(n_distinct: int) -> None:
    column = [float(row % n_distinct) for row in range(3000)]

    texts = plain_texts(column)

    assert isinstance(texts, Repeated)
    assert len(texts.distinct) == n_distinct
    assert list(texts) == [b"%d" % value for value in column]
