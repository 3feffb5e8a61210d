"""Levels that no run has: which measured ones stand in for them."""

import numpy as np
import pytest

from models import RunTable, fit_portfolio
from models.encoding import UNSEEN
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
    portfolio: FittedPortfolio, asked: Row, column: str = "param.precision"
) -> dict[str, float]:
    """Return the weights of a category's levels that answer a question."""
    features = make_features([asked])
    encoded = portfolio.encoder.encode(features)
    expansion = portfolio.transfer.expand(encoded, features)
    assert expansion is not None
    names = [category.column for category in portfolio.encoder.categories]
    place = names.index(column)
    levels = portfolio.encoder.categories[place].levels
    codes = expansion.X[:, portfolio.encoder.layout.n_numeric + 1 + place].astype(int)
    found = {str(levels[code]): 0.0 for code in codes.tolist()}
    for code, weight in zip(codes.tolist(), expansion.weights.tolist(), strict=True):
        found[str(levels[code])] += weight
    return found


def test_setting_beside_a_board_of_one_level_is_answered_by_its_other_levels_too() -> None:
    portfolio = _fit(_rows(("A", "fp32"), ("A", "mixed"), ("B", "mixed")))
    asked = _row("B", "bf16")

    weights = _stand_ins(portfolio, asked)
    median = float(portfolio.predict(make_features([asked])).median()[0])

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
    asked: Row = {
        "workers": 4.0,
        "gpu_type": "K80",
        "instance_type": "four",
        "param.data": "made up",
    }

    assert _stand_ins(portfolio, asked, "instance_type").keys() == {"one", "two"}
    median = portfolio.predict(make_features([asked])).median()[0]
    assert median == pytest.approx(100, rel=0.1)
