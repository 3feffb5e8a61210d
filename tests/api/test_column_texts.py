"""Texts of columns: many are written as each alone."""

from decimal import Decimal

import numpy as np
import pytest

from app.api.batches.column_texts import decimal_texts


@pytest.mark.parametrize("most", [3, 9, 17])
@pytest.mark.parametrize("n", [10, 2000])
def test_amounts_show_all_their_decimals(n: int, most: int) -> None:
    random = np.random.default_rng(n)
    units, decimals = random.integers(0, 10**most, n), random.integers(1, most + 1, n)

    texts = decimal_texts(units, decimals)

    told = zip(units.tolist(), decimals.tolist(), strict=True)
    assert texts == [format(Decimal(unit).scaleb(-shown), "f").encode() for unit, shown in told]
