"""Trends beyond the measured range: of batches that are worked through or not, of parameters."""

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, dumps, fit_portfolio, loads
from models.metrics import mape
from tests.models.forging import Artefact
from tests.models.workloads import make_features

Row = dict[str, float | str]


def _rows(batches: tuple[float, ...]) -> list[Row]:
    return [
        {"workers": workers, "batch_size": batch * workers, "param.length": length}
        for batch in batches
        for workers in (1.0, 2.0, 4.0)
        for length in (64.0, 128.0, 256.0)
    ]


def _seconds(row: Row, *, is_epoch: bool) -> float:
    batch = float(row["batch_size"]) / float(row["workers"])
    step = 0.02 + 0.01 * batch * float(row["param.length"]) / 64
    return step * (3000 / float(row["batch_size"]) if is_epoch else 1000)


def _fit_noisy(rows: list[Row], truth: list[float], noise: float, seed: int) -> FittedPortfolio:
    """Return a fit of runs whose durations have log-normal noise."""
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(len(rows)))
    names = [f"run_{i}" for i in range(len(rows))]
    runs = RunTable(make_features(rows), np.array(truth) * factors, names)
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _fit(batches: tuple[float, ...], *, is_epoch: bool = False) -> FittedPortfolio:
    rows = _rows(batches)
    return _fit_noisy(rows, [_seconds(row, is_epoch=is_epoch) for row in rows], 0.02, 2)


def _fades(portfolio: FittedPortfolio) -> dict[str, str]:
    return {feature.column: feature.fades for feature in portfolio.encoder.numeric}


def test_trend_of_a_batch_with_which_durations_rise_goes_on() -> None:
    portfolio = _fit((1.0, 2.0, 4.0, 8.0))
    questions = _rows((32.0, 64.0))
    truth = np.array([_seconds(row, is_epoch=False) for row in questions])

    forecast = portfolio.predict(make_features(questions))

    lower, upper = forecast.interval(0.9)
    assert _fades(portfolio)["batch_size"] == "below"
    assert mape(truth, forecast.median()) < 0.2
    assert np.mean((lower < truth) & (truth < upper)) > 0.9


def test_trend_of_a_batch_with_which_durations_fall_fades_above_and_goes_on_below() -> None:
    def seconds(batch: float) -> float:
        return 3000 * (0.05 / batch + 0.001)

    def rows(batches: tuple[float, ...]) -> list[Row]:
        return [
            {"workers": 1.0, "batch_size": batch, "param.run": float(run)}
            for batch in batches
            for run in (1, 2)
        ]

    known = rows((16.0, 24.0, 32.0, 64.0, 128.0, 256.0, 512.0))
    portfolio = _fit_noisy(known, [seconds(float(row["batch_size"])) for row in known], 0.02, 4)

    forecast = portfolio.predict(make_features(rows((4.0, 4096.0))))

    questions = np.repeat([seconds(4.0), seconds(4096.0)], 2)
    lower, upper = forecast.interval(0.9)
    assert _fades(portfolio)["batch_size"] == "above"
    assert mape(questions, forecast.median()) < 0.3
    assert ((lower < questions) & (questions < upper)).all()


def test_one_row_and_artefact_answer_as_the_table_does() -> None:
    portfolio = _fit((1.0, 2.0, 4.0, 8.0))
    rows = _rows((0.1, 3.0, 50.0))
    medians = portfolio.predict(make_features(rows)).median().tolist()

    restored = loads(dumps(portfolio))

    assert restored.predict(make_features(rows)).median().tolist() == medians
    alone = [float(portfolio.predict(make_features([row])).median()[0]) for row in rows]
    assert alone == pytest.approx(medians, rel=1e-12)


def _in_memory(lengths: tuple[float, ...]) -> list[Row]:
    """Return runs whose batches are as large as memory allows: the longer, the fewer sequences."""
    return [
        {"workers": workers, "batch_size": workers * batch, "param.length": length}
        for length in lengths
        for batch in (16384 / length, 24576 / length)
        for workers in (1.0, 2.0, 4.0)
    ]


def _seconds_of_tokens(row: Row) -> float:
    """Return the duration of a fixed number of tokens: attention grows with the length."""
    return 1000 * (1 + float(row["param.length"]) / 8192) / float(row["workers"])


def _fit_tokens(rows: list[Row]) -> FittedPortfolio:
    return _fit_noisy(rows, [_seconds_of_tokens(row) for row in rows], 0.03, 3)


def test_parameter_that_went_with_the_batch_fades_with_it() -> None:
    portfolio = _fit_tokens(_in_memory((2048.0, 4096.0, 8192.0)))
    questions = _in_memory((512.0, 256.0))
    truth = np.array([_seconds_of_tokens(row) for row in questions])

    forecast = portfolio.predict(make_features(questions))

    lower, upper = forecast.interval(0.9)
    assert _fades(portfolio) == {"workers": "none", "batch_size": "both", "param.length": "below"}
    assert mape(truth, forecast.median()) < 0.15
    assert np.mean((lower < truth) & (truth < upper)) > 0.9


def test_parameter_that_went_along_with_the_batch_fades_above() -> None:
    rows = [
        row | {"param.micro": float(row["batch_size"]) / float(row["workers"]) / (1 + index % 2)}
        for index, row in enumerate(_rows((1.0, 2.0, 4.0)))
    ]

    assert _fades(_fit_tokens(rows))["param.micro"] == "above"


def test_data_that_went_along_with_the_batch_goes_on() -> None:
    rows = [
        row | {"dataset_size": float(row["batch_size"]) / float(row["workers"]) * (4 + index % 2)}
        for index, row in enumerate(_in_memory((2048.0, 4096.0, 8192.0)))
    ]
    portfolio = loads(dumps(_fit_tokens(rows)))

    fades = _fades(portfolio)

    assert fades["param.length"] == "below"
    assert fades["dataset_size"] == "none"


def test_trend_of_a_parameter_that_varied_by_itself_goes_on() -> None:
    portfolio = _fit((1.0, 2.0, 4.0, 8.0), is_epoch=True)

    assert _fades(portfolio)["param.length"] == "none"


def test_few_configurations_do_not_tell_what_goes_together() -> None:
    portfolio = _fit_tokens(_in_memory((2048.0, 4096.0, 8192.0))[::2])

    assert _fades(portfolio) == {"workers": "none", "batch_size": "both", "param.length": "none"}


def _launched(batches: tuple[float, ...], *, hidden: float) -> tuple[list[Row], list[float]]:
    """Return epochs of steps that take at least the time of `hidden` samples."""
    rows: list[Row] = [
        {"workers": 1.0, "batch_size": batch, "dataset_size": size}
        for batch in batches
        for size in (1000.0, 2000.0, 4000.0)
    ]
    seconds = [
        float(row["dataset_size"]) * max(hidden / float(row["batch_size"]), 1.0) / 100
        for row in rows
    ]
    return rows, seconds


def test_trend_that_runs_at_the_largest_batches_confirm_goes_on_as_far_as_that() -> None:
    rows, truth = _launched((8.0, 16.0, 32.0, 64.0), hidden=1000.0)
    portfolio = _fit_noisy(rows, truth, 0.02, 3)
    questions, asked = _launched((128.0,), hidden=1000.0)

    forecast = portfolio.predict(make_features(questions))

    (batch,) = (f for f in portfolio.encoder.numeric if f.column == "batch_size")
    assert batch.fades == "above"
    assert batch.reach == pytest.approx(np.log(2))
    assert mape(np.array(asked), forecast.median()) < 0.1


def test_trend_that_ends_with_the_largest_batches_fades_at_once() -> None:
    rows, truth = _launched((8.0, 16.0, 32.0, 64.0), hidden=32.0)
    portfolio = _fit_noisy(rows, truth, 0.02, 3)

    (batch,) = (f for f in portfolio.encoder.numeric if f.column == "batch_size")
    assert (batch.fades, batch.reach) == ("above", 0.0)


@pytest.mark.parametrize("reach", [-0.1, 0.5, 1e9])
def test_artefact_whose_trend_reaches_where_it_does_not_fade_is_refused(reach: float) -> None:
    artefact = Artefact(dumps(_fit((1.0, 2.0, 4.0, 8.0))))
    header = artefact.header()
    (feature,) = (f for f in header["encoder"]["numeric"] if f["column"] == "batch_size")
    feature["reach"] = reach

    with pytest.raises(ValueError, match="a trend reaches where it does not fade"):
        loads(artefact.with_header(header))


@pytest.mark.parametrize("column", ["workers", "param.share"])
def test_artefact_in_which_what_cannot_fades_is_refused(column: str) -> None:
    rows = [row | {"param.share": index % 4 / 4} for index, row in enumerate(_rows((1.0, 2.0)))]
    portfolio = _fit_noisy(rows, [_seconds(row, is_epoch=False) for row in rows], 0.0, 0)
    artefact = Artefact(dumps(portfolio))
    header = artefact.header()
    (feature,) = (f for f in header["encoder"]["numeric"] if f["column"] == column)
    feature["fades"] = "above"

    with pytest.raises(ValueError, match="what fades is no batch and no parameter"):
        loads(artefact.with_header(header))
