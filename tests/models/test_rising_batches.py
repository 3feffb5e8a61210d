"""Workloads with a fixed number of steps: durations rise with the batch."""

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


def _fit(batches: tuple[float, ...], *, is_epoch: bool = False) -> FittedPortfolio:
    rows = _rows(batches)
    truth = np.array([_seconds(row, is_epoch=is_epoch) for row in rows])
    seconds = truth * np.exp(0.02 * np.random.default_rng(2).standard_normal(len(rows)))
    runs = RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _rises(portfolio: FittedPortfolio) -> bool:
    return any(feature.rises for feature in portfolio.encoder.numeric)


def test_trend_of_a_batch_with_which_durations_rise_goes_on() -> None:
    portfolio = _fit((1.0, 2.0, 4.0, 8.0))
    asked = _rows((32.0, 64.0))
    truth = np.array([_seconds(row, is_epoch=False) for row in asked])

    forecast = portfolio.predict(make_features(asked))

    lower, upper = forecast.interval(0.9)
    assert _rises(portfolio)
    assert mape(truth, forecast.median()) < 0.2
    assert np.mean((lower < truth) & (truth < upper)) > 0.9


def test_trend_of_a_batch_with_which_durations_fall_fades() -> None:
    assert not _rises(_fit((1.0, 2.0, 4.0, 8.0), is_epoch=True))


def test_one_row_and_artefact_answer_as_the_table_does() -> None:
    portfolio = _fit((1.0, 2.0, 4.0, 8.0))
    rows = _rows((0.1, 3.0, 50.0))
    medians = portfolio.predict(make_features(rows)).median().tolist()

    again = loads(dumps(portfolio))

    assert again.predict(make_features(rows)).median().tolist() == medians
    alone = [float(portfolio.predict(make_features([row])).median()[0]) for row in rows]
    assert alone == pytest.approx(medians, rel=1e-12)


def test_artefact_in_which_another_column_rises_is_refused() -> None:
    artefact = Artefact(dumps(_fit((1.0, 2.0, 4.0, 8.0))))
    header = artefact.header()
    for feature in header["encoder"]["numeric"]:
        feature["rises"] = feature["role"] != "local_batch"

    with pytest.raises(ValueError, match="what rises is no batch"):
        loads(artefact.with_header(header))
