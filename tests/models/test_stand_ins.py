"""Levels that no run has: which measured ones stand in for them."""

import numpy as np
import pytest

from models import FeatureTable, RunTable, dumps, fit_portfolio, loads
from models.features.encoder import UNSEEN
from models.features.hardware import UNKNOWN_SD
from models.portfolio import FittedPortfolio
from tests.models.workloads import make_features

_EFFECT = {"fp32": 1.0, "mixed": 0.5}
_SPEED = {"A": 1.0, "B": 0.6, "C": 0.8}

Row = dict[str, float | str]


def _row(machine: str, precision: str, workers: float = 4.0) -> Row:
    return {"workers": workers, "param.board": machine, "param.precision": precision}


def _fit(rows: list[Row]) -> FittedPortfolio:
    seconds = np.array(
        [
            1000
            * _SPEED[str(row["param.board"])]
            * _EFFECT[str(row["param.precision"])]
            / float(row["workers"])
            for row in rows
        ]
    )
    runs = RunTable(make_features(rows), seconds, [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=60)


def _rows(*pairs: tuple[str, str], repeats: int = 1) -> list[Row]:
    every = [_row(*pair, workers) for pair in pairs for workers in (1.0, 2.0, 4.0, 8.0)]
    return every * repeats


def _stand_ins(
    portfolio: FittedPortfolio, question: Row, column: str = "param.precision"
) -> dict[str, float]:
    """Return the weights of a category's levels that answer a question."""
    features = make_features([question])
    encoded = portfolio.encoder.encode(features)
    expansion = portfolio.transfer.expand(encoded, features)
    assert expansion is not None
    used = [category for category in portfolio.encoder.categories if category.used]
    place = [category.column for category in used].index(column)
    levels = used[place].levels
    codes = expansion.X[:, portfolio.encoder.layout.n_numeric + 1 + place].astype(int)
    found = {str(levels[code]): 0.0 for code in codes.tolist()}
    for code, weight in zip(codes.tolist(), expansion.weights.tolist(), strict=True):
        found[str(levels[code])] += weight
    return found


def test_setting_beside_a_board_of_one_level_is_answered_by_its_other_levels_too() -> None:
    portfolio = _fit(_rows(("A", "fp32"), ("A", "mixed"), ("B", "mixed")))
    question = _row("B", "bf16")

    weights = _stand_ins(portfolio, question)
    median = float(portfolio.predict(make_features([question])).median()[0])

    assert weights == pytest.approx({"mixed": 0.6, "fp32": 0.4})
    assert median == pytest.approx(1000 * 0.6 / 4 * 0.5**0.6, rel=0.1)


def test_level_never_measured_beside_the_known_one_does_not_stand_in() -> None:
    portfolio = _fit(_rows(("A", "fp32"), ("B", "mixed"), ("C", "fp32")))

    assert _stand_ins(portfolio, _row("B", "bf16")) == {"mixed": 1.0}


def test_levels_of_a_setting_count_alike_beside_another_open_one() -> None:
    often = _rows(("A", "fp32"), ("B", "fp32"), repeats=3)
    portfolio = _fit(often + _rows(("A", "mixed"), ("B", "mixed")))

    assert _stand_ins(portfolio, _row("D", "bf16")) == pytest.approx({"fp32": 0.5, "mixed": 0.5})
    assert _stand_ins(portfolio, _row("A", "bf16")) == pytest.approx({"fp32": 0.75, "mixed": 0.25})
    # A level that is left out was probably one that runs often have.
    left_out: Row = {"workers": 4.0, "param.board": "D"}
    assert _stand_ins(portfolio, left_out) == pytest.approx({"fp32": 0.75, "mixed": 0.25})


def test_machine_is_answered_by_those_measured_with_the_rest_of_the_question() -> None:
    rows: list[Row] = [
        {"workers": workers, "gpu_type": gpu, "param.vendor": vendor}
        for gpu, vendor in (("old", "one"), ("new", "one"), ("new", "two"))
        for workers in (1.0, 2.0, 4.0, 8.0)
    ]
    runs = RunTable(
        make_features(rows),
        np.array([100 / float(row["workers"]) for row in rows]),
        [f"run_{i}" for i in range(len(rows))],
    )
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60)
    features = make_features([{"workers": 4.0, "gpu_type": "newest", "param.vendor": "two"}])
    encoded = portfolio.encoder.encode(features)

    expansion = portfolio.transfer.expand(encoded, features)

    assert expansion is not None
    assert encoded.codes[0, 0] == UNSEEN
    assert len(expansion.X) == 1


def test_machine_beside_settings_that_it_never_ran_is_answered_by_machines_of_its_gpu() -> None:
    """None was measured with all that is asked: what has the GPU asked says more than the rest."""
    rows: list[Row] = [
        {"workers": workers, "gpu_type": gpu, "instance_type": machine, "param.data": data}
        for gpu, machine, data in (
            ("K80", "one", "disk"),
            ("K80", "two", "disk"),
            ("P100", "three", "disk"),
            ("P100", "three", "made up"),
        )
        for workers in (1.0, 2.0, 4.0, 8.0)
    ]
    seconds = [(400 if row["gpu_type"] == "K80" else 100) / float(row["workers"]) for row in rows]
    runs = RunTable(make_features(rows), np.array(seconds), [f"run_{i}" for i in range(len(rows))])
    portfolio = fit_portfolio(runs, seed=0, time_budget_s=60)
    question: Row = {
        "workers": 4.0,
        "gpu_type": "K80",
        "instance_type": "four",
        "param.data": "made up",
    }

    assert _stand_ins(portfolio, question, "instance_type").keys() == {"one", "two"}
    median = portfolio.predict(make_features([question])).median()[0]
    assert median == pytest.approx(100, rel=0.1)


def _beside_processors() -> FittedPortfolio:
    """Return a fit of machines of which each ran without its GPU, and some with it too."""
    machines: list[Row] = [
        {"instance_type": "one"},
        {"instance_type": "two"},
        {"instance_type": "three"},
        {"instance_type": "one", "gpu_type": "T4"},
        {"instance_type": "two", "gpu_type": "V100"},
    ]
    rows = [machine | {"workers": workers} for machine in machines for workers in (1.0, 2.0, 4.0)]
    processors = {"one": 1000.0, "two": 4000.0, "three": 2000.0}
    seconds = [
        (100 if "gpu_type" in row else processors[str(row["instance_type"])])
        / float(row["workers"])
        for row in rows
    ]
    runs = RunTable(make_features(rows), np.array(seconds), [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=60)


def test_machine_without_its_gpu_does_not_stand_in_for_a_gpu_type_without_runs() -> None:
    portfolio = _beside_processors()
    question: Row = {"workers": 4.0, "instance_type": "three", "gpu_type": "new"}

    assert _stand_ins(portfolio, question, "gpu_type").keys() == {"T4", "V100"}
    assert portfolio.predict(make_features([question])).median()[0] < 100


def test_machine_without_a_run_is_known_less_where_no_gpu_tells_most_of_it() -> None:
    portfolio = _beside_processors()
    questions: list[Row] = [
        {"workers": 4.0, "instance_type": "four", "gpu_type": "T4"},
        {"workers": 4.0, "instance_type": "four"},
    ]
    forecast = portfolio.predict(make_features(questions))

    assert forecast.scale[1] > 2 * forecast.scale[0]


@pytest.mark.parametrize("column", ["absent", "empty"])
def test_runs_that_tell_no_gpu_type_say_little_of_one(column: str) -> None:
    sizes = np.repeat([1e5, 2e5], 5)
    workers = np.tile([1.0, 2.0, 4.0, 8.0, 16.0], 2)
    gpus: dict[str, list[str | None]] = {"gpu_type": [None] * 10} if column == "empty" else {}
    features = FeatureTable({"workers": workers, "dataset_size": sizes}, gpus, 10)
    runs = RunTable(features, sizes / workers / 100, [f"run_{i}" for i in range(10)])
    portfolio = loads(dumps(fit_portfolio(runs, seed=0, time_budget_s=60)))
    questions = make_features(
        [
            {"workers": 4.0, "dataset_size": 1e5},
            {"workers": 4.0, "dataset_size": 1e5, "gpu_type": "A100-80GB"},
        ]
    )
    lower, upper = portfolio.predict(questions).interval(0.9)
    without, with_gpu = portfolio.support(questions)

    assert upper[0] / lower[0] < 1.3
    assert 250 / lower[1] > 5
    assert upper[1] / 250 > 5
    assert (without.basis, with_gpu.basis) == ("measured", "prior")
    assert with_gpu.unseen_levels == (("gpu_type", "A100-80GB"),)


@pytest.mark.parametrize("known", [("fp32",), ("fp32", "mixed", "int8", "int4")])
def test_levels_lie_as_far_apart_as_they_do(known: tuple[str, ...]) -> None:
    rows = [_row("A", each, workers) for each in known for workers in (1.0, 2.0, 4.0, 8.0)]
    effects = dict(zip(known, (1.0, 0.3, 3.0, 0.1), strict=False))
    seconds = [1000 * effects[str(row["param.precision"])] / float(row["workers"]) for row in rows]
    runs = RunTable(make_features(rows), np.array(seconds), [f"run_{i}" for i in range(len(rows))])

    forecast = fit_portfolio(runs, seed=0, time_budget_s=60).predict(
        make_features([_row("A", "bf16")])
    )

    lower, upper = (float(bound[0]) for bound in forecast.interval(0.9))
    spread = max(float(np.std(np.log(list(effects.values())))), UNKNOWN_SD)
    assert np.log(upper / lower) / 2 >= 1.645 * spread
