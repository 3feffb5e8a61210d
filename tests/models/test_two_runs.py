"""Two runs lie on a line in all columns: that alone does not make one column repeat another."""

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, fit_portfolio
from models.features.encoder import Encoder
from models.tables import FeatureTable
from tests.models.workloads import make_features

Row = dict[str, float | str]


def _fit(rows: list[Row], seconds: list[float]) -> FittedPortfolio:
    names = [f"run_{row}" for row in range(len(rows))]
    runs = RunTable(make_features(rows), np.array(seconds), names)
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _encoder(**columns: list[float]) -> Encoder:
    numeric = {name: np.array(values) for name, values in columns.items()}
    return Encoder.learn(FeatureTable(numeric, {}, len(next(iter(numeric.values())))))


@pytest.mark.parametrize(
    ("workers", "size"),
    [
        ([1.0, 4.0], [1e3, 2e3]),
        ([4.0, 1.0], [1e3, 2e3]),
    ],
)
def test_columns_that_differ_between_two_runs_stay_features(
    workers: list[float], size: list[float]
) -> None:
    encoder = _encoder(workers=workers, dataset_size=size)

    assert encoder.companions == ()
    assert [feature.column for feature in encoder.numeric if feature.used] == [
        "workers",
        "dataset_size",
    ]


def test_column_in_other_units_repeats_another_one_from_two_runs_on() -> None:
    encoder = _encoder(dataset_size=[1e3, 2e3], bytes=[3072e3, 6144e3])

    assert [companion.feature.column for companion in encoder.companions] == ["bytes"]


def test_three_points_on_a_line_show_that_a_column_repeats_another_one() -> None:
    encoder = _encoder(dataset_size=[1e3, 2e3, 4e3], area=[1.0, 4.0, 16.0])

    assert [companion.feature.column for companion in encoder.companions] == ["area"]


def test_second_run_with_more_workers_and_data_does_not_hide_what_physics_knows() -> None:
    rows: list[Row] = [
        {"workers": 1.0, "dataset_size": 1e3},
        {"workers": 8.0, "dataset_size": 16e3},
    ]
    portfolio = _fit(rows, [500.0, 1000.0])
    questions = make_features(
        [
            {"workers": 1.0, "dataset_size": 16e3},
            {"workers": 8.0, "dataset_size": 1e3},
        ]
    )

    error = np.log(portfolio.predict(questions).median() / [8000, 62.5])

    assert np.abs(error).max() < np.log(2)
    assert [support.unidentified for support in portfolio.support(questions)] == [(), ()]
