"""Odd repetitions are named with their ratio, and weigh little."""

import numpy as np
import pytest

from models import FeatureTable, RunTable, fit_portfolio
from models.runs.configurations import collapse
from models.runs.outliers import MAX_NAMED, find_outliers


def make_repetitions(factors: dict[int, float], repetitions: int = 4) -> RunTable:
    rng = np.random.default_rng(0)
    workers = np.repeat([1.0, 2.0, 4.0, 8.0], repetitions)
    seconds = 800 / workers * np.exp(rng.normal(0, 0.01, len(workers)))
    for row, factor in factors.items():
        seconds[row] *= factor
    names = [f"run_{row:02}" for row in range(len(workers))]
    return RunTable(FeatureTable({"workers": workers}, {}, len(workers)), seconds, names)


def test_odd_repetitions_are_named_the_farthest_first() -> None:
    runs = make_repetitions({1: 3.0, 6: 0.5})

    outliers = find_outliers(runs, collapse(runs))

    assert [(each.run_id, each.beside) for each in outliers] == [
        ("run_01", "run_00"),
        ("run_06", "run_04"),
    ]
    assert [each.ratio for each in outliers] == [
        pytest.approx(3.0, rel=0.05),
        pytest.approx(0.5, rel=0.05),
    ]


def test_ordinary_noise_and_pairs_have_no_outliers() -> None:
    quiet = make_repetitions({})
    pairs = make_repetitions({0: 3.0}, repetitions=2)

    assert find_outliers(quiet, collapse(quiet)) == ()
    assert find_outliers(pairs, collapse(pairs)) == ()


def test_no_more_than_fifty_are_named() -> None:
    runs = make_repetitions(dict.fromkeys(range(0, 1200, 10), 2.0), repetitions=300)

    assert len(find_outliers(runs, collapse(runs))) == MAX_NAMED


def test_a_forecast_hardly_moves_for_an_outlier_that_the_report_names() -> None:
    calm, odd = (
        fit_portfolio(
            make_repetitions(factors), seed=0, time_budget_s=20, regressors=["log_linear"]
        )
        for factors in ({}, {1: 6.0})
    )
    questions = FeatureTable({"workers": np.array([1.0])}, {}, 1)

    ratio = odd.predict(questions).median()[0] / calm.predict(questions).median()[0]

    assert ratio == pytest.approx(1.0, abs=0.1)
    assert [outlier.run_id for outlier in odd.report.evidence.outliers] == ["run_01"]
    assert calm.report.evidence.outliers == ()
