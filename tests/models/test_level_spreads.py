"""Categories whose levels are told by numbers beside them: instance types by cores and memory."""

import math

import numpy as np

from models import RunTable, dumps, loads
from models.columns.level_spreads import with_level_spreads
from models.features.encoder import Encoder
from models.features.layout import Layout
from models.laws.law_priors import law_prior
from models.metrics import mape
from tests.models.workloads import fit, make_features

Row = dict[str, float | str]
MACHINES = {
    f"m{family}.{size}x": (float(2 * size), float(2 * size * memory))
    for family, memory in enumerate((2, 4, 8))
    for size in (1, 2, 4)
}
"""Cores and memory of nine instance types, three sizes of three families."""


def _rows() -> list[Row]:
    return [
        {
            "workers": workers,
            "instance_type": name,
            "param.cores": cores,
            "param.memory": memory,
        }
        for name, (cores, memory) in MACHINES.items()
        for workers in (2.0, 4.0, 8.0, 16.0)
    ]


def _seconds(row: Row, own: dict[str, float] | None = None) -> float:
    cores = float(row["workers"]) * float(row["param.cores"])
    memory = float(row["param.memory"])
    factor = 1.0 if own is None else own[str(row["instance_type"])]
    return factor * (40 + 9000 * math.pow(cores, -0.9)) * math.pow(memory, -0.15)


def _runs(rows: list[Row], own: dict[str, float] | None = None) -> RunTable:
    noise = 0.03 * np.random.default_rng(4).standard_normal(len(rows))
    seconds = np.array([_seconds(row, own) for row in rows]) * np.exp(noise)
    return RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])


def _spreads(runs: RunTable) -> dict[str, float]:
    y = np.log(runs.duration_seconds)
    encoder = with_level_spreads(
        Encoder.learn(runs.features), runs.features, y - float(np.median(y)), seed=0
    )
    return {category.column: category.spread for category in encoder.categories if category.used}


def test_machine_without_runs_is_forecast_from_its_cores_and_memory() -> None:
    new = "m1.4x"
    known = [row for row in _rows() if row["instance_type"] != new]
    questions = [row for row in _rows() if row["instance_type"] == new]
    truth = np.array([_seconds(row) for row in questions])

    forecast = fit(_runs(known)).predict(make_features(questions))

    low, high = forecast.interval(0.9)
    assert mape(truth, forecast.median()) < 0.12
    assert ((low < truth) & (truth < high)).all()
    # A level of which nothing is known is as wide as a factor of 2 either way.
    assert np.median(high / low) < 2.5


def test_levels_that_numbers_tell_lie_close_together() -> None:
    assert _spreads(_runs(_rows())) == {"instance_type": 0.1}


def test_levels_that_differ_by_themselves_keep_their_spread() -> None:
    effects = np.exp(0.6 * np.random.default_rng(1).standard_normal(len(MACHINES)))
    own = dict(zip(MACHINES, effects.tolist(), strict=True))

    assert _spreads(_runs(_rows(), own)) == {"instance_type": 1.0}


def test_few_levels_and_few_runs_tell_nothing_of_spreads() -> None:
    two = [row for row in _rows() if row["instance_type"] in {"m0.1x", "m1.4x"}]
    few = [row for row in _rows() if row["workers"] == 4][:3]

    assert _spreads(_runs(two)) == {"instance_type": 1.0}
    assert _spreads(_runs(few)) == {"instance_type": 1.0}


def test_spread_scales_what_is_believed_of_its_own_category_alone() -> None:
    layout = Layout(("workers",), (2, 3), ((0.0,) * 2, (0.0,) * 3), (1.0, 0.3))

    prior = law_prior(layout, "data", ("compute",), 1.0)

    assert prior.sds[2:].tolist() == [0.5, 0.5, 0.15, 0.15, 0.15]


def test_artefact_keeps_the_spread() -> None:
    known = [row for row in _rows() if row["instance_type"] != "m2.2x"]
    questions = make_features([row for row in _rows() if row["instance_type"] == "m2.2x"])
    portfolio = fit(_runs(known))

    loaded = loads(dumps(portfolio))

    used = [category for category in loaded.encoder.categories if category.used]
    assert [category.spread for category in used] == [0.1]
    assert np.array_equal(loaded.predict(questions).scale, portfolio.predict(questions).scale)
