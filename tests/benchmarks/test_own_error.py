"""How often exactly calibrated forecasts know their own error."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.accuracy.judging import Judgement, Points
from benchmarks.accuracy.own_error import attainable_share
from tests.benchmarks.judged import JUDGED

pytestmark = pytest.mark.lengthy

TYPICAL = 0.1


def task_of(log_errors: np.ndarray, *, announced: float = TYPICAL) -> Judgement:
    """Return a task whose forecasts were off by log errors and announced `TYPICAL` a run."""
    n = len(log_errors)
    ones, typical = (1.0,) * n, (TYPICAL,) * n
    observed = tuple(np.exp(log_errors).tolist())
    return replace(
        JUDGED,
        n_test=n,
        mape=float(np.abs(np.expm1(-log_errors)).mean()),
        own_estimate=announced,
        points=Points(observed, ones, ones, ones, typical),
    )


def drawn(n_tasks: int, n_runs: int, alike: float) -> list[Judgement]:
    """Return tasks whose normal log errors share a part of their variance within a task."""
    generator = np.random.default_rng(7)
    shared = generator.standard_normal((n_tasks, 1))
    own = generator.standard_normal((n_tasks, n_runs))
    errors = 0.14 * (np.sqrt(alike) * shared + np.sqrt(1 - alike) * own)
    return [task_of(error) for error in errors]


def test_many_independent_runs_make_the_error_known() -> None:
    assert attainable_share(drawn(40, 60, alike=0.0)) > 0.99


def test_one_run_is_within_a_factor_of_two_of_its_median_as_often_as_a_normal_draw_is() -> None:
    # P(.674 / 2 <= |z| <= 2 x .674) = .559 for log errors; the error is their exponential's.
    assert attainable_share(drawn(2_000, 1, alike=0.0)) == pytest.approx(0.56, abs=0.03)


def test_errors_that_go_together_within_a_task_are_hardly_more_than_one_draw() -> None:
    together, apart = (attainable_share(drawn(200, 12, alike=alike)) for alike in (0.9, 0.0))

    assert together < 0.72
    assert apart > 0.95


def test_what_forecasts_announce_counts_and_not_how_wrong_they_all_were() -> None:
    right = drawn(40, 12, alike=0.0)
    bold = [
        task_of(3 * np.log(np.array(item.points.observed)), announced=TYPICAL) for item in right
    ]

    assert attainable_share(bold) == pytest.approx(attainable_share(right), abs=0.02)


def test_forecasts_without_any_error_leave_nothing_to_announce() -> None:
    assert attainable_share([task_of(np.zeros(5))]) == 0.0


def test_errors_beyond_all_numbers_are_no_overflow() -> None:
    far = task_of(np.array([-1.0, 1.0]))
    points = replace(far.points, typical=(1e300, 1e300))

    assert attainable_share([replace(far, points=points, own_estimate=1e300), far]) <= 1
