"""Columns that went together in all runs: what is said where a question parts them."""

import json

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, Support, dumps, fit_portfolio, loads
from models.artefacts.serialization import HEADER
from models.columns.relevance import with_relevance
from models.errors import ArtifactError
from models.features.layout import Layout
from models.state.packing import pack, unpack
from tests.models.workloads import make_features

Row = dict[str, float | str]

_WORKERS, _SIZES = (1.0, 2.0, 4.0, 8.0, 16.0), (1000.0, 2000.0, 4000.0, 8000.0)


def _grid(**columns: float) -> list[Row]:
    """Return a grid in which further columns are multiples of the size of the data set."""
    return [
        {
            "workers": workers,
            "dataset_size": size,
            **{name: factor * size for name, factor in columns.items()},
        }
        for workers in _WORKERS
        for size in _SIZES
    ]


def _fit(rows: list[Row], seconds: list[float]) -> FittedPortfolio:
    noisy = np.array(seconds) * np.exp(
        0.02 * np.random.default_rng(0).standard_normal(len(seconds))
    )
    runs = RunTable(make_features(rows), noisy, [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _by(column: str, rows: list[Row], factor: float = 1.0) -> list[float]:
    return [0.5 * float(row[column]) / factor / float(row["workers"]) + 5 for row in rows]


@pytest.fixture(scope="module")
def lines() -> FittedPortfolio:
    rows = _grid(**{"param.lines": 100.0})
    return _fit(rows, _by("dataset_size", rows))


_QUESTION: Row = {"workers": 4.0, "dataset_size": 4000.0, "param.lines": 4e5}


def _support(portfolio: FittedPortfolio, row: Row) -> Support:
    return portfolio.support(make_features([row]))[0]


def test_question_that_keeps_companions_together_is_as_sure_as_before(
    lines: FittedPortfolio,
) -> None:
    support = _support(lines, _QUESTION)
    lower, upper = lines.predict(make_features([_QUESTION])).interval(0.9)

    assert (support.basis, support.within_range, support.unidentified) == ("measured", True, ())
    assert upper[0] / lower[0] < 1.2


@pytest.mark.parametrize("moved", [{"param.lines": 2e5}, {"dataset_size": 2000.0}])
def test_interval_holds_the_effect_of_either_companion(lines: FittedPortfolio, moved: Row) -> None:
    questions = make_features([_QUESTION | moved])
    lower, upper = lines.predict(questions).interval(0.9)
    support = _support(lines, _QUESTION | moved)

    assert lower[0] < 0.5 * 2000 / 4 + 5
    assert upper[0] > 0.5 * 4000 / 4 + 5
    assert support.unidentified == ("dataset_size", "param.lines")
    assert support.basis == "extrapolated"
    assert not support.within_range


@pytest.mark.parametrize("n_layers", [1, 4])
def test_more_data_than_the_weak_scaling_of_all_runs_takes_longer(n_layers: int) -> None:
    rows: list[Row] = [
        {"workers": workers, "dataset_size": 1000 * workers, "param.layers": 2.0**layer}
        for workers in _WORKERS
        for layer in range(n_layers)
    ]
    portfolio = _fit(rows, [100 * float(row["param.layers"]) for row in rows])
    kept: Row = {"workers": 4.0, "dataset_size": 4000.0, "param.layers": 1.0}
    questions = make_features([kept, kept | {"dataset_size": 40000.0}])
    median = portfolio.predict(questions).median()
    lower, upper = portfolio.predict(questions).interval(0.9)
    support = portfolio.support(questions)[1]

    assert median == pytest.approx([100, 1000], rel=0.1)
    assert lower[1] < 500
    assert upper[1] > 1500
    assert upper[0] / lower[0] < 1.5
    assert (support.basis, support.unidentified) == ("extrapolated", ("workers", "dataset_size"))


@pytest.mark.parametrize("batch", [64.0, 4096.0])
def test_few_runs_with_one_batch_say_that_they_do_not_know_another(batch: float) -> None:
    rows: list[Row] = [{"workers": workers, "batch_size": 512.0} for workers in _WORKERS]
    portfolio = _fit(rows, [2000 / float(row["workers"]) + 10 for row in rows])
    questions = make_features([{"workers": 4.0, "batch_size": each} for each in (512.0, batch)])
    lower, upper = portfolio.predict(questions).interval(0.9)

    assert upper[0] / lower[0] < 2
    assert upper[1] / lower[1] > 10
    assert portfolio.support(questions)[1].unidentified == ("workers", "batch_size")


def test_companion_that_a_question_leaves_out_goes_along(lines: FittedPortfolio) -> None:
    question = {name: value for name, value in _QUESTION.items() if name != "param.lines"}

    assert lines.predict(make_features([question])).median() == pytest.approx(
        lines.predict(make_features([_QUESTION])).median()
    )
    assert _support(lines, question).unidentified == ()


def test_companions_survive_the_artefact(lines: FittedPortfolio) -> None:
    questions = make_features([_QUESTION, _QUESTION | {"param.lines": 1e4}])

    restored = loads(dumps(lines))

    assert (
        restored.predict(questions).median().tolist() == lines.predict(questions).median().tolist()
    )
    assert restored.predict(questions).scale.tolist() == lines.predict(questions).scale.tolist()
    assert restored.support(questions) == lines.support(questions)


def test_rows_of_one_table_and_single_rows_are_read_alike(lines: FittedPortfolio) -> None:
    rows = [_QUESTION, _QUESTION | {"param.lines": 1e4}, _QUESTION | {"dataset_size": 1000.0}]

    together = lines.predict(make_features(rows)).median()
    alone = [float(lines.predict(make_features([row])).median()[0]) for row in rows]

    assert together == pytest.approx(alone)


@pytest.mark.parametrize(
    "change",
    [
        {"of": "param.other"},
        {"slope": 0.0},
        {"tolerance": -1.0},
        {"intercept": 1e9},
    ],
)
def test_artefact_with_an_absurd_companion_is_refused(
    lines: FittedPortfolio, change: dict[str, float | str]
) -> None:
    parts = {name: bytes(part) for name, part in unpack(dumps(lines)).items()}
    header = json.loads(parts[HEADER])
    header["encoder"]["companions"][0] |= change

    with pytest.raises(ArtifactError):
        loads(pack(parts | {HEADER: json.dumps(header).encode()}))


def test_categories_that_pair_off_are_read_both_ways_where_a_question_mixes_them() -> None:
    rows: list[Row] = [
        {"workers": workers, "dataset_size": size, "gpu_type": gpu, "param.library": library}
        for gpu, library in (("V100", "old"), ("T4", "new"))
        for workers in _WORKERS
        for size in _SIZES
    ]
    slower = [3.0 if row["gpu_type"] == "T4" else 1.0 for row in rows]
    seconds = [s * factor for s, factor in zip(_by("dataset_size", rows), slower, strict=True)]
    portfolio = _fit(rows, seconds)
    kept: Row = {"workers": 4.0, "dataset_size": 4000.0, "gpu_type": "T4", "param.library": "new"}
    mixed = kept | {"param.library": "old"}

    lower, upper = portfolio.predict(make_features([mixed])).interval(0.9)

    assert upper[0] / lower[0] > 2.9
    assert set(_support(portfolio, mixed).unidentified) == {"gpu_type", "param.library"}
    assert _support(portfolio, kept).unidentified == ()


def test_what_went_together_in_few_configurations_is_named_and_read_once() -> None:
    rows = [row for row in _grid(**{"param.lines": 100.0}) if row["workers"] in (1.0, 4.0)]
    portfolio = _fit(rows, _by("dataset_size", rows))
    questions, moved = (make_features([_QUESTION | more]) for more in ({}, {"param.lines": 2e5}))

    assert portfolio.support(moved)[0].unidentified == ("dataset_size", "param.lines")
    assert portfolio.predict(moved).median() == portfolio.predict(questions).median()


def test_unseen_level_stays_open_where_companions_are_parted() -> None:
    speeds = {"eager": 1.0, "compiled": 3.0}
    rows = [row | {"param.mode": mode} for mode in speeds for row in _grid(**{"param.lines": 100})]
    seconds = [
        second / speeds[str(row["param.mode"])]
        for row, second in zip(rows, _by("dataset_size", rows), strict=True)
    ]
    portfolio = _fit(rows, seconds)
    parted = _QUESTION | {"param.lines": 2e5}
    modes = ("eager", "compiled", "graph")

    forecast = portfolio.predict(make_features([parted | {"param.mode": mode} for mode in modes]))

    eager, compiled, unseen = forecast.median()
    lower, upper = forecast.interval(0.9)
    assert compiled * 1.2 < unseen < eager / 1.2
    assert lower[2] < lower[1]
    assert upper[2] > upper[0]


def test_three_columns_of_which_one_follows_from_two_are_named_together() -> None:
    generator = np.random.default_rng(1)
    rows = _grid()
    for row in rows:
        row["param.length"] = float(generator.choice([50, 100, 200]))
        row["param.lines"] = float(row["dataset_size"]) / float(row["param.length"])
    portfolio = _fit(rows, _by("dataset_size", rows))
    kept: Row = {"workers": 4, "dataset_size": 4000, "param.length": 100, "param.lines": 40}

    support = _support(portfolio, kept | {"param.lines": 20.0})
    known, parted = (
        float(np.log(upper / lower)[0])
        for lower, upper in (
            portfolio.predict(make_features([kept | change])).interval(0.9)
            for change in ({}, {"param.lines": 20.0})
        )
    )

    assert _support(portfolio, kept).unidentified == ()
    assert set(support.unidentified) == {"dataset_size", "param.length", "param.lines"}
    assert parted > 2 * known


def test_parameter_that_others_tell_is_not_called_irrelevant() -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(size=(40, 3))
    z[:, 2] = z[:, 0] - z[:, 1]
    layout = Layout(("dataset_size", "parameter", "parameter"), (), ())
    y = z[:, 0] + 0.02 * generator.normal(size=40)

    weighted = with_relevance(layout, np.column_stack([z, np.zeros(40)]), y, seed=0)

    assert weighted.relevance == (1.0, 1.0, 1.0)


def test_companion_of_the_local_batch_is_read_within_its_damped_reach() -> None:
    rows: list[Row] = [
        {"workers": w, "dataset_size": 8000.0, "batch_size": w * b, "param.tokens": 128.0 * b}
        for w in _WORKERS
        for b in (8.0, 16.0, 32.0)
    ]
    seconds = [
        8000 / float(row["batch_size"]) * (0.2 + 0.01 * float(row["param.tokens"]) / 128)
        for row in rows
    ]
    portfolio = _fit(rows, seconds)
    kept: Row = {"workers": 2.0, "dataset_size": 8000.0, "batch_size": 32.0, "param.tokens": 2048.0}

    assert _support(portfolio, kept).unidentified == ()
    assert _support(portfolio, kept | {"param.tokens": 1e5}).unidentified == (
        "batch_size",
        "param.tokens",
    )


def test_question_without_a_number_of_workers_parts_nothing(lines: FittedPortfolio) -> None:
    question = {name: value for name, value in _QUESTION.items() if name != "workers"}

    assert _support(lines, question).unidentified == ("workers",)


def test_few_configurations_tell_no_plane() -> None:
    generator = np.random.default_rng(1)
    rows: list[Row] = []
    for size in (1000.0, 2000.0, 4000.0, 8000.0):
        length = float(generator.choice([50, 100, 200]))
        rows.append({"dataset_size": size, "param.length": length, "param.lines": size / length})
    portfolio = _fit(rows, [float(row["dataset_size"]) for row in rows])
    question: Row = {"dataset_size": 4000, "param.length": 100, "param.lines": 20}

    assert _support(portfolio, question).unidentified == ()


def test_nodes_that_went_with_the_workers_are_named_and_leave_the_forecast_to_physics() -> None:
    rows: list[Row] = [
        {"workers": workers, "nodes": 1.0, "dataset_size": size}
        for workers in _WORKERS
        for size in _SIZES
    ]
    portfolio = _fit(rows, _by("dataset_size", rows))
    kept: Row = {"workers": 4.0, "nodes": 1.0, "dataset_size": 4000.0}
    questions = make_features([kept, kept | {"nodes": 4.0}])

    one, four = portfolio.predict(questions).median()
    widths = np.log(np.divide(*portfolio.predict(questions).interval(0.9)[::-1]))

    assert four == pytest.approx(one, rel=0.05)
    assert widths[1] > 2 * widths[0]
    assert _support(portfolio, kept | {"nodes": 4.0}).unidentified == ("workers", "nodes")


@pytest.mark.parametrize("repetitions", [1, 8])
def test_column_that_hardly_varied_does_not_stand_for_one_that_did(repetitions: int) -> None:
    rows: list[Row] = [
        {"workers": 1.0, "dataset_size": 100000.0, "param.layers": 1.0},
        {"workers": 1.0, "dataset_size": 100100.0, "param.layers": 4.0},
    ]
    portfolio = _fit(rows * repetitions, [100.0, 60.0] * repetitions)
    questions = [rows[1], rows[1] | {"param.layers": 40.0}, rows[1] | {"dataset_size": 1e6}]

    forecast = loads(dumps(portfolio)).predict(make_features(questions))

    lower, upper = forecast.interval(0.9)
    known, layers, data = (upper / lower).tolist()
    assert layers > 2 * known
    assert 3 * known < data < 1e4
    assert forecast.median()[2] > 3 * forecast.median()[0]
