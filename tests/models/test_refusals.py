"""Bad input is refused with a clear message, everywhere in the library."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from models import FeatureTable, ForecastDistribution, HardwareDescription, RunTable
from models.distribution import NORMAL_KNOTS
from models.metrics import coverage, log_interval_score, mape, relative_width, share_above
from tests.models.workloads import fit

ONE = np.array([1.0])
FORECAST = ForecastDistribution(np.zeros(1), ONE, ("interpolation",), NORMAL_KNOTS[None, 1:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FeatureTable({"workers": ONE}, {}, 2), "'workers' has 1 rows, not 2"),
        (lambda: FeatureTable({}, {"gpu_type": []}, 1), "'gpu_type' has 0 rows, not 1"),
        (lambda: FeatureTable({"p": ONE}, {"p": ["a"]}, 1), "numeric and categorical at once"),
        (lambda: FeatureTable({"p": np.array([np.inf])}, {}, 1), "beyond 1e+100"),
        (lambda: RunTable(FeatureTable({}, {}, 1), ONE, []), "differ in length"),
        (lambda: RunTable(FeatureTable({}, {}, 1), -ONE, ["a"]), "run 'a' has -1.0"),
        (
            lambda: fit(RunTable(FeatureTable({"interpolation": ONE}, {}, 1), ONE, ["a"])),
            "No column can be called 'interpolation'",
        ),
        (lambda: HardwareDescription(0.0, None, 16, 900), "positive and finite"),
        (lambda: FORECAST.interval(1.0), "between 0 and 1, not at 1.0"),
        (lambda: FORECAST.quantile(0.0), "between 0 and 1, not at 0.0"),
        (
            lambda: ForecastDistribution(np.array([np.nan]), ONE, ("x",), NORMAL_KNOTS[None, 1:]),
            "not finite",
        ),
        (lambda: ForecastDistribution(ONE, ONE, ("x",), np.ones((1, 5))), "must be positive and"),
        (lambda: mape(ONE, np.ones(2)), "one common shape"),
        (lambda: mape(np.empty(0), np.empty(0)), "at least one row"),
        (lambda: share_above(-ONE, ONE), "Observed durations are positive"),
        (lambda: mape(0 * ONE, ONE), "Observed durations are positive"),
        (lambda: coverage(ONE, ONE, np.ones(2)), "one common shape"),
        (lambda: relative_width(ONE, ONE, np.ones(2)), "one common shape"),
        (lambda: log_interval_score(ONE, ONE, ONE, 1.0), "between 0 and 1"),
        (lambda: log_interval_score(-ONE, ONE, ONE, 0.9), "Durations are positive"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_mape_is_zero_only_for_equality() -> None:
    observed = np.array([3.0, 5.0])

    assert mape(observed, observed) == 0
    assert mape(observed, observed * 1.001) > 0
