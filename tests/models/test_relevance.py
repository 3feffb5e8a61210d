"""Parameters that tell nothing of the duration: a learning rate, a seed."""

import numpy as np
import pytest

from models import FittedPortfolio, FloatArray, RunTable, dumps, fit_portfolio, loads
from models.columns.relevance import IRRELEVANT, STRONG, with_relevance
from models.features.layout import Layout
from models.metrics import mape
from tests.models.workloads import fit, grid, law_seconds, make_features, make_runs

pytestmark = pytest.mark.lengthy

Row = dict[str, float | str]


def _rows(n_idle: int, seed: int) -> list[Row]:
    """Return a grid of 40 configurations, each with parameters that change nothing."""
    generator = np.random.default_rng(seed)
    rows = grid((1, 2, 4, 8, 16), (1000, 2000, 4000, 8000))
    idle = generator.lognormal(size=(len(rows), n_idle))
    return [
        {**row, **{f"param.idle{k}": float(value) for k, value in enumerate(values)}}
        for row, values in zip(rows, idle, strict=True)
    ]


def _error(n_idle: int) -> float:
    rows = _rows(n_idle, seed=1)
    questions = [{**row, "workers": 12.0, "dataset_size": 3000.0} for row in rows[:12]]
    truth = np.array([law_seconds(row) for row in questions])
    return mape(truth, fit(make_runs(rows)).predict(make_features(questions)).median())


def test_parameters_that_change_nothing_cost_little_accuracy() -> None:
    assert _error(16) < _error(0) + 0.01


def test_more_parameters_than_configurations_are_no_hindrance() -> None:
    rows = _rows(40, seed=1)[::3][:12]
    truth = np.array([law_seconds(row) for row in rows])

    forecasts = fit(make_runs(rows)).predict(make_features(rows))

    low, high = forecasts.interval(0.9)
    assert np.mean((low < truth) & (truth < high)) > 0.8
    assert mape(truth, forecasts.median()) < 0.3


def test_parameter_that_matters_keeps_its_influence_beside_idle_ones() -> None:
    rows = [{**row, "param.length": float(128 << (i % 3))} for i, row in enumerate(_rows(6, 2))]
    truth = np.array([law_seconds(row) * float(row["param.length"]) ** 0.7 for row in rows])
    seconds = truth * np.exp(0.02 * np.random.default_rng(3).standard_normal(len(rows)))
    runs = RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])
    questions = [{**rows[0], "param.length": length} for length in (128.0, 512.0)]

    short, long = (
        fit_portfolio(runs, seed=0, time_budget_s=600).predict(make_features(questions)).median()
    )

    assert long / short == pytest.approx(4**0.7, rel=0.1)


def _relative_width(portfolio: FittedPortfolio, rows: list[Row]) -> float:
    forecast = portfolio.predict(make_features(rows))
    lower, upper = forecast.interval(0.9)
    return float(np.median((upper - lower) / forecast.median()))


def test_question_beyond_the_range_of_an_idle_parameter_is_no_extrapolation() -> None:
    rows = _rows(2, seed=1)
    portfolio = fit(make_runs(rows))
    far = [{**row, "param.idle0": 1000.0} for row in rows]
    truth = np.array([law_seconds(row) for row in rows])

    forecast = portfolio.predict(make_features(far))
    support = portfolio.support(make_features(far))[0]

    assert set(forecast.regimes) == {"interpolation"}
    assert support.basis == "interpolated"
    assert [axis.name for axis in support.axes] == ["param.idle0"]
    assert not support.within_range
    lower, upper = forecast.interval(0.9)
    assert ((lower < truth) & (truth < upper)).mean() > 0.9
    assert _relative_width(portfolio, rows) < _relative_width(portfolio, far) < 0.4


def test_irrelevance_of_an_axis_survives_its_artefact() -> None:
    rows = _rows(2, seed=1)
    portfolio = fit(make_runs(rows))
    questions = make_features([{**row, "param.idle0": 1000.0, "workers": 32.0} for row in rows])

    found = loads(dumps(portfolio))

    assert found.predict(questions).regimes == portfolio.predict(questions).regimes
    assert set(found.predict(questions).regimes) == {"workers"}
    assert np.array_equal(found.predict(questions).scale, portfolio.predict(questions).scale)


def test_no_held_out_set_is_spent_on_an_idle_parameter() -> None:
    report = fit(make_runs(_rows(9, seed=1))).report

    assert set(report.accuracy_by_axis) == {"interpolation", "workers", "dataset_size", "gpu_type"}


@pytest.mark.parametrize(("n_rows", "expected"), [(30, (1.0, 1.0, IRRELEVANT)), (11, ())])
def test_irrelevance_is_told_of_parameters_alone_and_by_enough_configurations(
    n_rows: int, expected: tuple[float, ...]
) -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(n_rows, 3))
    layout = Layout(("workers", "parameter", "parameter"), (), ())
    y = 0.5 * z[:, 1] + 0.02 * generator.normal(size=n_rows)

    weighted = with_relevance(layout, np.column_stack([z, np.zeros(n_rows)]), y, seed=0)

    assert weighted.relevance == expected


def _cubic(orders: tuple[float, ...]) -> list[Row]:
    """Return rows that vary the order of a matrix, and three that vary the workers."""
    pairs = [(2.0, order) for order in orders] + [(w, 1024.0) for w in (1.0, 4.0, 8.0)]
    return [{"workers": workers, "param.order": order} for workers, order in pairs]


def _cubic_seconds(rows: list[Row]) -> FloatArray:
    orders = np.array([float(row["param.order"]) for row in rows])
    return orders**3 * 1e-9 / np.array([float(row["workers"]) for row in rows]) ** 0.5


def test_parameter_of_the_third_power_is_learned_from_ten_configurations() -> None:
    rows = _cubic((64.0, 128.0, 256.0, 512.0, 2048.0, 4096.0, 8192.0))
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(len(rows)))
    runs = RunTable(make_features(rows), _cubic_seconds(rows) * noise, [str(i) for i in range(10)])
    questions: list[Row] = [
        {"workers": workers, "param.order": order}
        for workers in (1.0, 4.0)
        for order in (200.0, 3000.0, 32_768.0)
    ]

    forecast = fit_portfolio(runs, seed=0, time_budget_s=600).predict(make_features(questions))

    truth = _cubic_seconds(questions)
    lower, upper = forecast.interval(0.9)
    assert mape(truth, forecast.median()) < 0.25
    assert ((lower < truth) & (truth < upper)).all()


@pytest.mark.parametrize(("exponent", "factor"), [(2.0, STRONG), (0.2, 1.0)])
def test_parameter_is_strong_where_the_usual_belief_is_contradicted(
    exponent: float, factor: float
) -> None:
    generator = np.random.default_rng(5)
    logs = np.column_stack([generator.uniform(-2, 2, 20), generator.uniform(-2, 2, 20)])
    X = np.column_stack([logs, np.zeros(20)])
    y = exponent * logs[:, 1] - logs[:, 0] + 0.03 * generator.standard_normal(20)

    layout = with_relevance(Layout(("workers", "parameter"), (), ()), X, y, seed=0)

    assert layout.relevances == (1.0, factor)


def test_two_parameters_that_may_stand_for_each_other_share_what_they_do() -> None:
    generator = np.random.default_rng(5)
    along = generator.uniform(-2, 2, 20)
    X = np.column_stack([along, along + 0.02 * generator.standard_normal(20), np.zeros(20)])
    y = 3 * along + 0.03 * generator.standard_normal(20)

    layout = with_relevance(Layout(("parameter", "parameter"), (), ()), X, y, seed=0)

    assert layout.relevances == (STRONG, STRONG)
