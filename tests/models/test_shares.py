"""Shares of the data: whether they act by their logarithm or as they are."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, dumps, fit_portfolio, loads
from tests.models.workloads import make_features

pytestmark = pytest.mark.lengthy

Row = dict[str, float | str]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def _added(row: Row) -> float:
    return 0.5 * float(row["dataset_size"]) / float(row["workers"]) + 200 * float(row["param.p"])


def _factor(row: Row) -> float:
    return (
        0.5 * float(row["dataset_size"]) / float(row["workers"]) * math.exp(float(row["param.p"]))
    )


def _rows(shares: tuple[float, ...] = _SHARES) -> list[Row]:
    return [
        {"workers": workers, "dataset_size": size, "param.p": share}
        for workers in (1.0, 2.0, 4.0, 8.0, 16.0)
        for size in (1000.0, 4000.0)
        for share in shares
    ]


def _fit(rows: list[Row], law: Callable[[Row], float]) -> FittedPortfolio:
    truth = np.array([law(row) for row in rows])
    seconds = truth * np.exp(0.02 * np.random.default_rng(0).standard_normal(len(rows)))
    runs = RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _transform(portfolio: FittedPortfolio) -> str:
    return next(item.transform for item in portfolio.encoder.numeric if item.column == "param.p")


def test_share_whose_work_is_added_enters_by_its_logarithm() -> None:
    portfolio = _fit(_rows(_SHARES[:3]), _added)
    questions = [row for row in _rows() if float(row["param.p"]) > 0.5]

    medians = portfolio.predict(make_features(questions)).median()
    errors = np.abs(medians / np.array([_added(row) for row in questions]) - 1)

    assert _transform(portfolio) == "log1p"
    assert errors.mean() < 0.08


@pytest.mark.parametrize("law", [_factor, lambda row: 500 / float(row["workers"])])
def test_share_that_multiplies_or_does_nothing_enters_as_it_is(
    law: Callable[[Row], float],
) -> None:
    assert _transform(_fit(_rows(), law)) == "scaled"


@pytest.mark.parametrize("rows", [_rows()[::6], _rows((0.0, 1.0))])
def test_few_configurations_and_flags_tell_no_transform(rows: list[Row]) -> None:
    assert _transform(_fit(rows, _added)) == "scaled"


def test_transform_survives_the_artefact() -> None:
    portfolio = _fit(_rows(), _added)
    questions = make_features(_rows((0.1, 0.6)))

    restored = loads(dumps(portfolio))

    assert _transform(restored) == "log1p"
    assert (
        restored.predict(questions).median().tolist()
        == portfolio.predict(questions).median().tolist()
    )


def test_gap_in_a_share_is_filled_as_before() -> None:
    rows = _rows()
    for row in rows[::7]:
        row["param.p"] = float("nan")
    portfolio = _fit(rows, lambda row: _added(row | {"param.p": np.nan_to_num(row["param.p"])}))

    median = portfolio.predict(make_features([{"workers": 2.0, "dataset_size": 1000.0}])).median()

    assert np.isfinite(median).all()


@pytest.mark.parametrize("unit", [1.0, -1.0])
def test_trend_beyond_the_largest_size_of_a_share_goes_on_as_a_power_law(unit: float) -> None:
    rows: list[Row] = [
        {"workers": workers, "param.files": unit * files}
        for workers in (1.0, 2.0, 4.0, 8.0)
        for files in (0.0, 10.0)
    ]
    portfolio = _fit(rows, lambda row: 100 + 20 * abs(float(row["param.files"])))
    questions = make_features(
        [{"workers": 2.0, "param.files": unit * files} for files in (10.0, 1000.0)]
    )

    forecast = portfolio.predict(questions)

    near, far = forecast.median()
    assert 1 < far / near < 1000
    assert (forecast.interval(0.9)[1] / forecast.interval(0.9)[0] < 1000).all()


def test_one_row_is_encoded_as_many_are_beyond_a_share() -> None:
    portfolio = _fit(_rows()[::6], _added)
    rows: list[Row] = [
        {"workers": 2.0, "dataset_size": 1e3, "param.p": p} for p in (-3.0, 0.5, 7.0)
    ]

    alone = [float(portfolio.predict(make_features([row])).median()[0]) for row in rows]

    together = portfolio.predict(make_features(rows)).median().tolist()
    assert together == pytest.approx(alone, rel=1e-12)
