"""What past stretches on other configurations say of the present one, by algebra."""

import numpy as np
import pytest

from app.decisions.durations import DurationBeliefs
from app.decisions.progress import Stretch, remaining_after
from models import NORMAL_KNOTS

WIDTHS = 0.2 * NORMAL_KNOTS[None, 1:]
PRIOR = DurationBeliefs.from_widths(np.log([1000.0]), WIDTHS, WIDTHS, NORMAL_KNOTS)
"""Of a job on its present configuration: normal, with a log variance of .04."""


def stretch(log_error: float) -> Stretch:
    """Return half of a job, on a configuration on which it was expected to take twice as long."""
    seconds = 0.5 * 2000.0 * np.exp(log_error)
    covariance = np.array([[0.05, 0.02], [0.02, 0.04]])
    return Stretch(np.array([0.5]), np.array([seconds]), np.log([2.0]), covariance)


def test_stretch_elsewhere_counts_by_what_the_two_configurations_share() -> None:
    # Regression on the present log duration: slope .02 / .04, residual variance .05 - .5 * .02.
    # With the variation of the rate, .1^2 (1 / .5 - 1), the precision is .5^2 / .05.
    left, weight = remaining_after(PRIOR, stretch(0.3), None, None, 0.1)

    # Beyond its 99 % bounds the forecast counts for less.
    assert weight == pytest.approx(5 / (5 + 1 / 0.04), rel=0.05)
    assert left.total.median() == pytest.approx(1000.0 * np.exp(0.3 / 0.5 / 6), rel=0.003)
    assert left.quantile(0.5) == pytest.approx(0.5 * left.total.median())


def test_time_on_the_present_configuration_counts_towards_what_the_stretch_left() -> None:
    left, _ = remaining_after(PRIOR, stretch(0.0), None, 450.0, 0.1)

    assert left.total.probability_below(np.array([900.0])) == 0
    assert left.quantile(0.5) == pytest.approx(0.5 * left.total.median() - 450.0)
    assert left.probability_below(left.quantile(0.3)) == pytest.approx(0.3)


def test_present_rate_joins_what_the_stretch_says() -> None:
    # Half of the rest in 1.2 times the time: its precision is 1 / (.1^2 (1 / .25 - 1)).
    left, weight = remaining_after(PRIOR, stretch(0.0), 0.25, 250.0 * 1.2, 0.1)

    alone, alone_weight = remaining_after(PRIOR, stretch(0.0), None, None, 0.1)
    assert weight > 2 * alone_weight
    assert left.total.median() > 1.05 * alone.total.median()
    assert left.quantile(0.5) == pytest.approx(0.5 * left.total.median() - 300.0)
