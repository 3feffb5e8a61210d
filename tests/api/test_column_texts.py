"""Texts written in columns: each is what its value alone would be written as."""

from decimal import Decimal

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from app.api.batches.column_texts import decimal_texts
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
