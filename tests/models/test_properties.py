"""Properties that hold for every workload: scale, order, nesting, round trip."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeatureTable, RunTable, dumps, loads
from tests.models.workloads import fit, grid, make_features, make_runs, run_tables

pytestmark = pytest.mark.lengthy

FEW = settings(max_examples=12)
FEWER = settings(max_examples=4)


@FEW
@given(run_tables(), st.lists(st.floats(0.01, 0.99), min_size=2, max_size=5))
def test_any_runs_give_finite_ordered_nested_bounds(runs: RunTable, levels: list[float]) -> None:
    forecast = fit(runs).predict(runs.features)

    bounds = [forecast.interval(level) for level in sorted(levels)]

    median = forecast.median()
    assert (median > 0).all()
    assert np.isfinite(median).all()
    for (lower, upper), (outer_lower, outer_upper) in pairwise(bounds):
        assert (outer_lower <= lower).all()
        assert (upper <= outer_upper).all()
    assert (bounds[0][0] <= median).all()
    assert (bounds[0][1] >= median).all()


@FEW
@given(run_tables())
def test_artefact_forecasts_exactly_as_the_fit(runs: RunTable) -> None:
    portfolio = fit(runs)

    loaded = loads(dumps(portfolio))

    before, after = portfolio.predict(runs.features), loaded.predict(runs.features)
    np.testing.assert_array_equal(before.log_median, after.log_median)
    np.testing.assert_array_equal(before.scale, after.scale)
    np.testing.assert_array_equal(before.curves, after.curves)
    assert dumps(loaded) == dumps(portfolio)
    assert loaded.support(runs.features) == portfolio.support(runs.features)


@FEW
@given(st.floats(0.001, 0.999), st.floats(0.0, 1e12))
def test_quantiles_and_probabilities_are_inverse(probability: float, seconds: float) -> None:
    forecast = fit(make_runs(grid()[:5])).predict(make_runs(grid()[:3]).features)

    at_quantile = forecast.probability_below(forecast.quantile(probability))
    anywhere = forecast.probability_below(np.full(3, seconds))

    np.testing.assert_allclose(at_quantile, probability, atol=1e-9)
    assert ((anywhere >= 0) & (anywhere <= 1)).all()


@FEW
@given(st.floats(0.01, 0.995))
def test_upper_bound_is_the_one_sided_quantile(confidence: float) -> None:
    forecast = fit(make_runs(grid()[:5])).predict(make_runs(grid()[:3]).features)

    lower, upper = forecast.interval(confidence)

    np.testing.assert_allclose(forecast.quantile((1 + confidence) / 2), upper, rtol=1e-9)
    np.testing.assert_allclose(forecast.quantile((1 - confidence) / 2), lower, rtol=1e-9)


@FEW
@given(st.floats(1.1, 20.0))
def test_more_data_never_takes_less_time(factor: float) -> None:
    runs = make_runs(grid(sizes=(1000, 2000, 4000)))
    numeric = {**runs.features.numeric}
    numeric["dataset_size"] = factor * numeric["dataset_size"]
    more = FeatureTable(numeric, runs.features.categorical, runs.n_runs)
    portfolio = fit(runs, regressors=["scaling_law", "log_linear"])

    assert (portfolio.predict(more).median() > portfolio.predict(runs.features).median()).all()


@FEWER
@given(st.integers(0, 1000), st.floats(0.0, 0.5), st.integers(2, 6))
def test_repeated_configuration_is_forecast_within_its_repetitions(
    seed: int, noise: float, repetitions: int
) -> None:
    runs = make_runs(grid(repetitions=repetitions), noise=noise, seed=seed)
    fitted = fit(runs)

    for portfolio in (fitted, loads(dumps(fitted))):
        median = portfolio.predict(runs.features).median().reshape(-1, repetitions)[:, 0]

        seconds = runs.duration_seconds.reshape(-1, repetitions)
        assert (median >= seconds.min(axis=1) * (1 - 1e-14)).all()
        assert (median <= seconds.max(axis=1) * (1 + 1e-14)).all()


def _with_parameters(n: int, columns: int) -> RunTable:
    values = np.random.default_rng(0).normal(size=(n, columns))
    numeric = {f"param.p{index}": column for index, column in enumerate(values.T)}
    seconds = np.exp(3 + values[:, 0])
    return RunTable(FeatureTable(numeric, {}, n), seconds, [str(row) for row in range(n)])


def _by_workers(workers: list[float], seconds: list[float]) -> RunTable:
    features = FeatureTable({"workers": np.array(workers)}, {}, len(workers))
    return RunTable(features, np.array(seconds), [str(row) for row in range(len(workers))])


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(_by_workers([4], [100.0]), id="one run"),
        pytest.param(_by_workers([4, 8], [100.0, 60.0]), id="two runs"),
        pytest.param(_by_workers([4] * 20, [100.0] * 20), id="identical rows"),
        pytest.param(_by_workers([1, 2, 4, 8], [100.0] * 4), id="constant duration"),
        pytest.param(_by_workers([1, 2, 4], [1e-3, 9e-4, 8e-4]), id="a millisecond"),
        pytest.param(_by_workers([1, 2, 4], [1e9, 6e8, 4e8]), id="thirty years"),
        pytest.param(_by_workers([1, 2, 4, 8] * 4, [1e-3, 1e9, 1, 10] * 4), id="from end to end"),
        pytest.param(_with_parameters(12, 40), id="40 features, 12 rows"),
    ],
)
def test_poor_runs_give_finite_forecasts_with_honest_width(runs: RunTable) -> None:
    known = {name: np.append(column, 3.0) for name, column in runs.features.numeric.items()}
    questions = FeatureTable(known, {"gpu_type": ["V100"] * (runs.n_runs + 1)}, runs.n_runs + 1)

    forecast = fit(runs).predict(questions)

    lower, upper = forecast.interval(0.9)
    assert (lower > 0).all()
    assert np.isfinite(upper).all()
    assert (upper / lower > 1.005).all()
    assert (upper / lower)[-1] > (1.5 if runs.n_runs < 3 else 1.005)


def test_unseen_level_and_missing_feature_widen_the_interval() -> None:
    portfolio = fit(make_runs(grid()))
    rows: list[dict[str, float | str]] = [
        {"workers": 4.0, "dataset_size": 2000.0, "epochs": 2.0, "gpu_type": "V100"},
        {"workers": 4.0, "dataset_size": 2000.0, "epochs": 2.0, "gpu_type": "another"},
        {"workers": 4.0, "epochs": 2.0, "gpu_type": "V100"},
    ]

    lower, upper = portfolio.predict(make_features(rows)).interval(0.9)

    known, unseen, missing = (upper / lower).tolist()
    assert unseen > 1.5 * known
    assert missing > 1.5 * known


def test_a_parameter_with_zeros_is_answered_however_far_it_is_asked() -> None:
    rows = [row | {"param.flag": flag} for row in grid(gpu_types=("V100",)) for flag in (0.0, 1.0)]
    portfolio = fit(make_runs(rows))
    far = [rows[0] | {"param.flag": flag} for flag in (1.0, 1e3, 1e6, -1e15, 1e90)]

    together = portfolio.predict(make_features(far))
    alone = [portfolio.predict(make_features([row])).interval(0.9999) for row in far]

    lower, upper = together.interval(0.9999)
    assert (lower > 0).all()
    assert np.isfinite(upper).all()
    assert (upper / lower)[2] >= (upper / lower)[1] > (upper / lower)[0]
    assert np.array(alone)[:, 0, 0].tolist() == pytest.approx(lower.tolist())
    assert np.array(alone)[:, 1, 0].tolist() == pytest.approx(upper.tolist())
