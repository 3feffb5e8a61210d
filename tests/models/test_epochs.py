"""Few epochs are measured and many are asked: they take as much longer, but for what is fixed."""

import numpy as np
import pytest

from models import Design, FittedPortfolio, fit_portfolio, joint_forecast
from models.tables import FeatureTable, FloatArray, RunTable
from tests.models.workloads import make_features

Row = dict[str, float | str]


def _seconds(row: Row, start_up: float, each: float) -> float:
    data, workers = float(row["dataset_size"]), float(row["workers"])
    return start_up + float(row["epochs"]) * (each + data / 500 / workers)


def _rows(*epochs: float) -> list[Row]:
    return [
        {"workers": workers, "dataset_size": size, "epochs": number}
        for number in epochs
        for workers in (1.0, 2.0, 4.0, 8.0)
        for size in (10_000.0, 20_000.0, 50_000.0, 100_000.0)
    ]


def _fit(rows: list[Row], start_up: float = 0.0, each: float = 0.0) -> FittedPortfolio:
    noise = np.exp(np.random.default_rng(3).normal(0, 0.02, len(rows)))
    seconds = np.array([_seconds(row, start_up, each) for row in rows]) * noise
    runs = RunTable(make_features(rows), seconds, [f"{place:03}" for place in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=20)


def _questions(epochs: float) -> tuple[list[Row], FeatureTable]:
    rows = [{**row, "epochs": epochs} for row in _rows(1)]
    return rows, make_features(rows)


def _truth(rows: list[Row], start_up: float = 0.0, each: float = 0.0) -> FloatArray:
    return np.array([_seconds(row, start_up, each) for row in rows])


@pytest.mark.parametrize("epochs", [2.0, 10.0, 90.0])
def test_many_epochs_take_as_much_longer_and_nearly_as_surely(epochs: float) -> None:
    portfolio = _fit(_rows(1))
    rows, questions = _questions(epochs)

    forecast = portfolio.predict(questions)

    np.testing.assert_allclose(forecast.median(), _truth(rows), rtol=0.1)
    lower, upper = forecast.interval(0.9)
    assert (lower < _truth(rows)).all()
    assert (upper > _truth(rows)).all()
    assert (upper / lower).max() < 2.5


@pytest.mark.parametrize(("start_up", "each"), [(20.0, 0.0), (0.0, 10.0), (10.0, 10.0)])
@pytest.mark.parametrize("epochs", [3.0, 90.0])
def test_fixed_part_may_be_of_the_run_or_of_each_epoch(
    start_up: float, each: float, epochs: float
) -> None:
    portfolio = _fit(_rows(1), start_up, each)
    rows, questions = _questions(epochs)
    truth = _truth(rows, start_up, each)

    lower, upper = portfolio.predict(questions).interval(0.9)

    assert ((lower <= truth) & (truth <= upper)).mean() >= 0.85
    assert np.median(upper / lower) < 6


def test_runs_of_several_epochs_tell_the_start_up() -> None:
    portfolio = _fit(_rows(1, 2, 5), start_up=30)
    rows, questions = _questions(50)

    forecast = portfolio.predict(questions)

    np.testing.assert_allclose(forecast.median(), _truth(rows, start_up=30), rtol=0.2)
    lower, upper = forecast.interval(0.9)
    assert (upper / lower).max() < 3


def test_fewer_epochs_than_were_measured_may_be_mostly_start_up() -> None:
    portfolio = _fit(_rows(10), start_up=30)
    rows, questions = _questions(1)
    truth = _truth(rows, start_up=30)

    lower, upper = portfolio.predict(questions).interval(0.9)

    assert ((lower <= truth) & (truth <= upper)).mean() >= 0.85


@pytest.mark.parametrize("measured", [(4.0,), (3.0, 4.0, 5.0)])
def test_start_up_that_shortens_many_epochs_lengthens_few(measured: tuple[float, ...]) -> None:
    portfolio = _fit(_rows(*measured))
    row = _rows(1)[0]
    questions = make_features([{**row, "epochs": epochs} for epochs in (1.0, 4.0, 16.0, 64.0)])

    correction = portfolio.ask(questions).epochs_correction

    assert correction is not None
    few, known, many, more = correction[1][:, 0].tolist()
    assert known == 0
    assert few < 0 < many < more


def test_run_of_many_epochs_tells_of_more() -> None:
    portfolio = _fit(_rows(1), start_up=20)
    base = {"workers": 8.0, "dataset_size": 10_000.0}
    candidates = make_features([{**base, "epochs": number} for number in (1.0, 10.0)])
    target = make_features([{**base, "epochs": 90.0}])

    (joint,) = joint_forecast(portfolio, candidates, target)

    few, many = Design([joint], np.ones(2)).gains().tolist()
    assert many > 4 * max(few, 0.0)
