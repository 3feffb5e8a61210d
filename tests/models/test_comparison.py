"""Comparisons of a new with a published regressor, on what neither had seen."""

import math

import numpy as np
import pytest

from models import RunTable, compare
from models.questions.regimes import interpolation_folds
from tests.models.workloads import fit, grid, make_runs

pytestmark = pytest.mark.lengthy


def test_regressor_compared_with_itself_is_no_worse() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    portfolio = fit(runs)

    comparison = compare(portfolio, portfolio, runs)

    assert comparison.challenger_mape == comparison.incumbent_mape
    assert comparison.n_configurations == 24
    assert comparison.is_better


def test_error_on_fitted_configurations_is_the_held_out_one() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    portfolio = fit(runs)

    comparison = compare(portfolio, portfolio, runs)

    assert math.isclose(
        comparison.challenger_mape,
        portfolio.report.accuracy_by_axis["interpolation"],
        rel_tol=1e-9,
    )


def test_incumbent_that_saw_other_code_loses() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    slow = RunTable(runs.features, 3 * runs.duration_seconds, runs.run_ids)

    comparison = compare(fit(runs), fit(slow), runs)

    assert comparison.is_better
    assert comparison.incumbent_mape > 1
    assert not compare(fit(slow), fit(runs), runs).is_better


def test_new_configurations_are_forecast_plainly_by_the_incumbent() -> None:
    old, new = grid((1, 2, 4)), grid((1, 2, 4, 8))

    comparison = compare(fit(make_runs(new)), fit(make_runs(old)), make_runs(new))

    assert comparison.n_configurations == 16
    assert comparison.incumbent_mape > 0


def test_nothing_to_judge_by_lets_the_newer_win() -> None:
    runs = make_runs(grid()[:2])

    comparison = compare(fit(runs), fit(runs), runs)

    assert math.isnan(comparison.challenger_mape)
    assert comparison.n_configurations == 0
    assert comparison.is_better


def test_fold_of_a_configuration_depends_on_its_key_alone() -> None:
    keys = tuple(f"{value:08x}" for value in range(100, 160))
    more = tuple(sorted((*keys, *(f"{value:08x}" for value in range(7, 29)))))

    def together(all_keys: tuple[str, ...]) -> set[frozenset[str]]:
        folds = interpolation_folds(all_keys)
        return {frozenset(all_keys[i] for i in fold.test) & set(keys) for fold in folds}

    assert together(keys) == together(more)
    assert sum(len(fold.test) for fold in interpolation_folds(more)) == len(more)


def test_folds_never_train_on_what_they_test() -> None:
    for fold in interpolation_folds(tuple(f"{value:08x}" for value in range(30))):
        assert not set(fold.train) & set(fold.test)
        assert np.array_equal(np.sort([*fold.train, *fold.test]), np.arange(30))
