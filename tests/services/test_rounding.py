"""Rounding many figures: each is what its own text tells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.services.answering.rounding import significant


@given(st.lists(st.floats(), min_size=1), st.integers(1, 9))
def test_each_figure_is_what_its_text_tells(values: list[float], digits: int) -> None:
    few, many = (significant(np.array(values * times), digits) for times in (1, 50))

    told = [repr(float(f"{value:.{digits}g}")) for value in values]
    assert list(map(repr, few)) == told
    assert list(map(repr, many)) == told * 50


@given(st.integers(1, 10**9), st.integers(-25, 25), st.integers(1, 9))
def test_halves_are_rounded_as_texts_are(mantissa: int, exponent: int, digits: int) -> None:
    value = float(f"{mantissa}5e{exponent}")

    for times in (2, 50):
        rounded = significant(np.array([value] * times), digits)
        assert rounded == [float(f"{value:.{digits}g}")] * times


def test_ten_thousand_durations_are_rounded_alike() -> None:
    seconds = np.exp(np.random.default_rng(7).normal(6.0, 4.0, 10_000))

    rounded = significant(seconds, 7)

    assert rounded == [float(f"{value:.7g}") for value in seconds.tolist()]
