"""Parameters that tell nothing of the duration: a learning rate, a seed."""

import numpy as np
import pytest

from models import RunTable, fit_portfolio
from models.layout import Layout
from models.metrics import mape
from models.relevance import IRRELEVANT, with_relevance
from tests.models.workloads import fit, grid, law_seconds, make_features, make_runs

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
    asked = [{**row, "workers": 12.0, "dataset_size": 3000.0} for row in rows[:12]]
    truth = np.array([law_seconds(row) for row in asked])
    return mape(truth, fit(make_runs(rows)).predict(make_features(asked)).median())


def test_parameters_that_change_nothing_cost_little_accuracy() -> None:
    assert _error(16) < _error(0) + 0.01


def test_parameter_that_matters_keeps_its_influence_beside_idle_ones() -> None:
    rows = [{**row, "param.length": float(128 << (i % 3))} for i, row in enumerate(_rows(6, 2))]
    truth = np.array([law_seconds(row) * float(row["param.length"]) ** 0.7 for row in rows])
    seconds = truth * np.exp(0.02 * np.random.default_rng(3).standard_normal(len(rows)))
    runs = RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])
    asked = [{**rows[0], "param.length": length} for length in (128.0, 512.0)]

    short, long = (
        fit_portfolio(runs, seed=0, time_budget_s=600).predict(make_features(asked)).median()
    )

    assert long / short == pytest.approx(4**0.7, rel=0.1)


@pytest.mark.parametrize(("n_rows", "expected"), [(30, (1.0, 1.0, IRRELEVANT)), (11, ())])
def test_irrelevance_is_told_of_parameters_alone_and_by_enough_configurations(
    n_rows: int, expected: tuple[float, ...]
) -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(n_rows, 3))
    layout = Layout(("workers", "parameter", "parameter"), (), ())
    y = 0.8 * z[:, 1] + 0.02 * generator.normal(size=n_rows)

    found = with_relevance(layout, np.column_stack([z, np.zeros(n_rows)]), y, seed=0)

    assert found.relevance == expected
