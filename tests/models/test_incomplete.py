"""Runs that leave out what others tell do not blur what these show."""

from collections.abc import Sequence

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, fit_portfolio
from models.screening.incomplete import find_incomplete

pytestmark = pytest.mark.lengthy

N = 36


def _runs(*, left_out: Sequence[int] = (), column: str = "dataset_size") -> RunTable:
    generator = np.random.default_rng(0)
    workers = np.exp2(generator.integers(0, 4, N)).astype(float)
    size = np.exp(generator.uniform(7, 11, N))
    batch = np.exp2(generator.integers(5, 9, N)).astype(float)
    mode = generator.choice(["eager", "graph"], N).tolist()
    slow = np.array([2.0 if each == "eager" else 1.0 for each in mode])
    seconds = size * slow / workers * np.exp(0.03 * generator.standard_normal(N))
    numeric = {"workers": workers, "dataset_size": size, "param.noise": batch}
    if column in numeric:
        numeric[column] = np.where(np.isin(np.arange(N), left_out), np.nan, numeric[column])
    words: list[str | None] = [
        None if column == "param.mode" and row in left_out else each
        for row, each in enumerate(mode)
    ]
    features = FeatureTable(numeric, {"param.mode": words}, N)
    return RunTable(features, seconds, [f"run_{row}" for row in range(N)])


LEFT_OUT = list(range(1, N, 3))


def _fit(runs: RunTable) -> FittedPortfolio:
    return fit_portfolio(runs, seed=0, time_budget_s=60)


@pytest.mark.parametrize("column", ["workers", "dataset_size", "param.mode"])
def test_runs_that_leave_out_what_matters_are_set_aside_and_counted(column: str) -> None:
    runs = _runs(left_out=LEFT_OUT, column=column)

    assert np.flatnonzero(find_incomplete(runs)).tolist() == LEFT_OUT
    portfolio = _fit(runs)
    assert portfolio.report.evidence.incomplete == len(LEFT_OUT)
    assert portfolio.report.n_runs == N - len(LEFT_OUT)
    kept = np.setdiff1d(np.arange(N), LEFT_OUT)
    alone = _fit(_runs().take(kept))
    questions = _runs().features
    np.testing.assert_array_equal(
        portfolio.predict(questions).median(), alone.predict(questions).median()
    )


def test_runs_that_leave_out_what_does_not_matter_go_on_teaching() -> None:
    runs = _runs(left_out=LEFT_OUT, column="param.noise")

    assert not find_incomplete(runs).any()
    assert _fit(runs).report.evidence.incomplete == 0


def test_column_that_does_not_apply_to_a_level_is_not_missing() -> None:
    runs = _runs()
    eager = np.array([each == "eager" for each in runs.features.categorical["param.mode"]])
    numeric: dict[str, FloatArray] = {
        **runs.features.numeric,
        "param.graph_depth": np.where(eager, np.nan, runs.features.numeric["dataset_size"]),
    }
    features = FeatureTable(numeric, runs.features.categorical, N)

    assert not find_incomplete(RunTable(features, runs.duration_seconds, runs.run_ids)).any()


def test_run_that_alone_shows_a_level_or_an_end_of_a_range_stays() -> None:
    runs = _runs(left_out=LEFT_OUT)
    workers = runs.features.numeric["workers"].copy()
    words = list(runs.features.categorical["param.mode"])
    workers[LEFT_OUT[0]], words[LEFT_OUT[1]] = 64.0, "compiled"
    features = FeatureTable({**runs.features.numeric, "workers": workers}, {"param.mode": words}, N)
    incomplete = find_incomplete(RunTable(features, runs.duration_seconds, runs.run_ids))

    assert np.flatnonzero(incomplete).tolist() == LEFT_OUT[2:]


def test_column_without_influence_keeps_no_run_of_another_one_aside() -> None:
    runs = _runs(left_out=LEFT_OUT[:6])
    noise = np.where(np.arange(N) % 3 == 0, np.nan, runs.features.numeric["param.noise"])
    numeric = {**runs.features.numeric, "param.noise": noise}
    features = FeatureTable(numeric, runs.features.categorical, N)
    incomplete = find_incomplete(RunTable(features, runs.duration_seconds, runs.run_ids))

    assert np.flatnonzero(incomplete).tolist() == LEFT_OUT[:6]


def test_sum_of_laws_sees_what_a_single_power_law_errs_more_than() -> None:
    generator = np.random.default_rng(3)
    workers = np.exp2(generator.integers(0, 5, N)).astype(float)
    passes = generator.choice([1.0, 2.0, 3.0, 5.0, 9.0], N)
    seconds = (20 * passes + 200 / workers) * np.exp(0.03 * generator.standard_normal(N))
    known_passes = np.where(np.isin(np.arange(N), LEFT_OUT), np.nan, passes)
    features = FeatureTable({"workers": workers, "param.passes": known_passes}, {}, N)
    runs = RunTable(features, seconds, [f"run_{row}" for row in range(N)])

    assert np.flatnonzero(find_incomplete(runs)).tolist() == LEFT_OUT


def test_few_complete_configurations_set_nothing_aside() -> None:
    runs = _runs(left_out=range(11, N))

    assert not find_incomplete(runs).any()


def test_order_of_rows_and_columns_does_not_matter() -> None:
    runs = _runs(left_out=LEFT_OUT)
    order = np.random.default_rng(1).permutation(N)
    turned = runs.take(order)
    numeric = dict(list(turned.features.numeric.items())[::-1])
    features = FeatureTable(numeric, turned.features.categorical, N)
    incomplete = find_incomplete(RunTable(features, turned.duration_seconds, turned.run_ids))

    assert sorted(order[np.flatnonzero(incomplete)].tolist()) == LEFT_OUT
