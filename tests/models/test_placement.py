"""Questions that leave the nodes open are asked of workers as dense as they were measured."""

import json
from typing import Any

import numpy as np
import pytest

from models import (
    ArtifactError,
    FeatureTable,
    FittedPortfolio,
    RunTable,
    dumps,
    fit_portfolio,
    loads,
)
from models.artefacts.serialization import HEADER
from models.features.placement import Placement
from models.state.packing import pack, unpack


def _law(workers: float, nodes: float) -> float:
    """Return seconds; crossing nodes costs a factor of 2.5."""
    return 20.0 + 20_000.0 / workers * (2.5 if nodes > 1 else 1.0)


def _fit(placed: list[tuple[float, float]]) -> FittedPortfolio:
    rng = np.random.default_rng(0)
    rows = placed * 3
    features = _table(rows)
    seconds = np.array([_law(*row) for row in rows]) * rng.lognormal(0, 0.02, len(rows))
    runs = RunTable(features, seconds, [str(n) for n in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=20, regressors=["scaling_law"])


def _table(rows: list[tuple[float, float]]) -> FeatureTable:
    workers, nodes = np.array(rows).T
    return FeatureTable({"workers": workers, "nodes": nodes}, {}, len(rows))


def _open(workers: list[float]) -> FeatureTable:
    return FeatureTable({"workers": np.array(workers)}, {}, len(workers))


DENSE = [(1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (8.0, 1.0), (16.0, 2.0), (32.0, 4.0)]


@pytest.mark.parametrize("workers", [[16.0], [4.0, 16.0, 32.0]])
def test_open_nodes_are_those_of_all_runs(workers: list[float]) -> None:
    portfolio = loads(dumps(_fit(DENSE)))

    left_open = portfolio.ask(_open(workers))
    stated = portfolio.ask(_table([row for row in DENSE if row[0] in workers]))

    assert left_open.forecast.median().tolist() == stated.forecast.median().tolist()
    assert left_open.forecast.interval(0.9)[1].tolist() == stated.forecast.interval(0.9)[1].tolist()
    assert [support.basis for support in left_open.support] == [
        support.basis for support in stated.support
    ]


def test_open_nodes_are_less_sure_where_runs_stood_in_several_ways() -> None:
    portfolio = _fit([*DENSE, (8.0, 4.0), (16.0, 8.0), (4.0, 2.0)])

    left_open, stated = portfolio.predict(_open([16.0])), portfolio.predict(_table([(16.0, 2.0)]))

    assert left_open.median()[0] == pytest.approx(stated.median()[0], rel=0.1)
    assert left_open.interval(0.9)[1][0] > 1.2 * stated.interval(0.9)[1][0]


def test_nodes_that_one_question_leaves_open_are_sure_in_another() -> None:
    portfolio = _fit([*DENSE, (8.0, 4.0), (16.0, 8.0), (4.0, 2.0)])
    questions = _table([(12.0, np.nan), (12.0, 2.0)])

    _, together = portfolio.predict(questions).interval(0.9)
    alone = [
        portfolio.predict(questions.take(np.array([row]))).interval(0.9)[1][0] for row in (0, 1)
    ]

    assert together == pytest.approx(alone)
    assert together[0] > 1.2 * together[1]


def test_inquiry_tells_the_nodes_that_it_asks_of() -> None:
    portfolio = _fit(DENSE)

    filled = portfolio.ask(_open([16.0])).features

    assert filled.numeric["nodes"].tolist() == [2.0]


def test_each_kind_of_hardware_has_its_own_density() -> None:
    features = FeatureTable(
        {
            "workers": np.array([8.0, 16.0, 2.0, 4.0, 1.0]),
            "nodes": np.array([1.0, 2.0, 2.0, 4.0, 1.0]),
        },
        {
            "gpu_type": ["V100", "V100", "V100", "V100", "T4"],
            "instance_type": ["large", "large", "small", "small", "single"],
        },
        5,
    )
    placement = Placement.learn(features)
    assert placement is not None

    questions = FeatureTable(
        {
            "workers": np.array([8.0, 8.0, 8.0, 20.0]),
            "nodes": np.array([np.nan, np.nan, 8.0, np.nan]),
        },
        {"instance_type": ["large", "small", "large", "unseen"]},
        4,
    )
    single = FeatureTable({"workers": np.array([4.0])}, {"instance_type": ["single"]}, 1)
    alone = [placement.filled(questions.take(np.array([row]))) for row in range(4)]

    assert placement.is_regular
    assert placement.filled(questions).numeric["nodes"].tolist() == [1.0, 8.0, 8.0, 3.0]
    assert [row.numeric["nodes"].item() for row in alone] == [1.0, 8.0, 8.0, 3.0]
    # What was measured on one node alone may have room for more.
    assert placement.filled(single).numeric["nodes"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("workers", "nodes"),
    [
        ([1.0, 2.0], [1.0, 1.0]),
        ([4.0, 16.0], [2.0, 2.0]),
        ([8.0, 16.0], [1.0, np.nan]),
        ([0.0, 16.0], [1.0, 2.0]),
    ],
)
def test_runs_that_do_not_tell_of_several_nodes_tell_no_density(
    workers: list[float], nodes: list[float]
) -> None:
    numeric = {"workers": np.array(workers), "nodes": np.array(nodes)}

    assert Placement.learn(FeatureTable(numeric, {}, 2)) is None
    assert Placement.learn(_open([1.0])) is None


def test_question_without_workers_stays_open() -> None:
    placement = Placement.learn(_table(DENSE))
    assert placement is not None
    questions = FeatureTable({"epochs": np.array([3.0])}, {}, 1)

    assert placement.filled(questions) is questions


@pytest.mark.parametrize(
    "change",
    [
        {"densest": 0.0},
        {"densest": 1e300},
        {"levels": ["V100"]},
        {"densities": "many"},
        {"is_regular": 1},
    ],
)
def test_altered_density_is_refused(change: dict[str, Any]) -> None:
    parts = {name: bytes(part) for name, part in unpack(dumps(_fit(DENSE))).items()}
    header = json.loads(parts[HEADER])
    header["placement"] |= change

    with pytest.raises(ArtifactError):
        loads(pack(parts | {HEADER: json.dumps(header).encode()}))


def test_runs_that_do_not_tell_their_nodes_hide_those_of_no_other() -> None:
    numeric = {"workers": np.array([4.0, 8.0, 2.0]), "nodes": np.array([1.0, 2.0, np.nan])}

    placement = Placement.learn(FeatureTable(numeric, {}, 3))

    assert placement is not None
    assert (placement.densest, placement.is_regular) == (4.0, True)


def test_fullest_node_of_an_uneven_run_tells_the_density() -> None:
    placement = Placement.learn(_table([(5.0, 2.0), (10.0, 3.0)]))

    assert placement is not None
    assert (placement.densest, placement.is_regular) == (4.0, True)


def test_nodes_without_a_worker_of_their_own_have_room_for_one() -> None:
    placement = Placement.learn(_table([(1.0, 1e12), (1.0, 2e12)]))

    assert placement is not None
    assert placement.densest == 1.0
    assert placement.filled(_open([3.0])).numeric["nodes"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("gpu_type", "instance_type", "gpus", "density"),
    [
        ("V100", "large", 16, 8.0),
        ("V100", "unseen", 16, 16.0),
        ("V100", "unseen", None, 4.0),
        ("T4", None, None, 8.0),
        (None, None, None, 8.0),
    ],
)
def test_density_is_what_was_measured_then_the_room_of_the_machine(
    gpu_type: str | None, instance_type: str | None, gpus: int | None, density: float
) -> None:
    columns, levels = ("instance_type", "gpu_type"), ("large", "V100")
    placement = Placement(8.0, columns, levels, (8.0, 4.0), is_regular=True)
    in_several_ways = Placement(8.0, columns, levels, (8.0, 4.0), is_regular=False)

    assert placement.density(gpu_type, instance_type, gpus) == density
    assert in_several_ways.density(gpu_type, instance_type, gpus) == (
        16.0 if instance_type == "unseen" and gpus else None
    )
