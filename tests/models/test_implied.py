"""Of two columns that went together in all runs, it does not matter which a question names."""

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, Support, dumps, fit_portfolio, loads
from tests.models.workloads import make_features

Row = dict[str, float | str]

_GRID = [(workers, size) for workers in (1.0, 2.0, 4.0, 8.0) for size in (1e3, 4e3, 16e3, 64e3)]
_PAIRS = [
    ("param.samples", "param.bytes", 1.0),
    ("param.samples", "param.bytes", 3072.0),
    ("dataset_size", "param.bytes", 3072.0),
]


def _fit(rows: list[Row], sizes: list[float]) -> FittedPortfolio:
    generator = np.random.default_rng(0)
    seconds = [
        0.5 * size / float(row["workers"]) + 5 for row, size in zip(rows, sizes, strict=True)
    ]
    noisy = np.array(seconds) * np.exp(0.02 * generator.standard_normal(len(rows)))
    runs = RunTable(make_features(rows), noisy, [f"run_{i}" for i in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _fit_pair(one: str, other: str, unit: float) -> FittedPortfolio:
    rows: list[Row] = [{"workers": w, one: size, other: unit * size} for w, size in _GRID]
    return _fit(rows, [size for _, size in _GRID])


def _answer(portfolio: FittedPortfolio, row: Row) -> tuple[list[float], Support]:
    questions = make_features([row])
    lower, upper = portfolio.predict(questions).interval(0.9)
    median = portfolio.predict(questions).median()
    return [float(median[0]), float(lower[0]), float(upper[0])], portfolio.support(questions)[0]


@pytest.mark.parametrize(("one", "other", "unit"), _PAIRS)
def test_question_that_names_one_of_two_columns_is_answered_as_if_it_named_both(
    one: str, other: str, unit: float
) -> None:
    portfolio = loads(dumps(_fit_pair(one, other, unit)))

    for size in (1e3, 8e3, 64e3, 256e3):
        both, support = _answer(portfolio, {"workers": 4.0, one: size, other: unit * size})
        for alone in ({one: size}, {other: unit * size}):
            numbers, own_support = _answer(portfolio, {"workers": 4.0, **alone})

            assert numbers == pytest.approx(both, rel=1e-6)
            assert (own_support.basis, own_support.unidentified) == (support.basis, ())
            assert own_support.axes == support.axes
            assert own_support.nearest_run_ids == support.nearest_run_ids


def test_batch_is_told_by_what_repeats_the_batch_of_one_worker() -> None:
    rows: list[Row] = [
        {"workers": w, "batch_size": w * batch, "param.tokens": 100 * batch}
        for w in (1.0, 2.0, 4.0, 8.0)
        for batch in (8.0, 16.0, 32.0, 64.0)
    ]
    portfolio = _fit(rows, [3e5 / float(row["param.tokens"]) for row in rows])

    both, _ = _answer(portfolio, {"workers": 4.0, "batch_size": 128.0, "param.tokens": 3200.0})
    alone, support = _answer(portfolio, {"workers": 4.0, "param.tokens": 3200.0})

    assert alone == pytest.approx(both, rel=1e-6)
    assert (support.basis, support.unidentified) == ("measured", ())


def test_questions_of_one_table_may_name_different_columns() -> None:
    portfolio = _fit_pair("param.samples", "param.bytes", 3072.0)
    rows: list[Row] = [
        {"workers": 4.0, "param.samples": 8e3},
        {"workers": 4.0, "param.bytes": 3072.0 * 8e3},
        {"workers": 4.0},
    ]

    together = portfolio.predict(make_features(rows))
    lower, upper = together.interval(0.9)

    assert together.median()[:2] == pytest.approx([_answer(portfolio, rows[0])[0][0]] * 2)
    assert upper[2] / lower[2] > 2 * upper[0] / lower[0]
    assert [len(support.unidentified) for support in portfolio.support(make_features(rows))] == [
        0,
        0,
        1,
    ]


def test_column_that_another_one_tells_only_roughly_is_answered_less_surely() -> None:
    generator = np.random.default_rng(1)
    factors = np.exp(0.06 * generator.uniform(-1, 1, len(_GRID))).tolist()
    rows: list[Row] = [
        {"workers": w, "dataset_size": size, "param.bytes": 3072 * size * factor}
        for (w, size), factor in zip(_GRID, factors, strict=True)
    ]
    portfolio = _fit(rows, [size for _, size in _GRID])

    stated, _ = _answer(portfolio, {"workers": 4.0, "dataset_size": 32e3})
    implied, support = _answer(portfolio, {"workers": 4.0, "param.bytes": 3072 * 32e3})

    assert support.unidentified == ()
    assert implied[0] == pytest.approx(stated[0], rel=0.06)
    assert 1.02 < (implied[2] / implied[1]) / (stated[2] / stated[1]) < 1.5


@pytest.mark.parametrize("named", [{"param.engine": "new"}, {"param.driver": "6.1"}])
def test_level_that_another_one_tells_in_all_runs_is_not_open(named: Row) -> None:
    rows: list[Row] = [
        {"workers": w, "dataset_size": size, "param.engine": engine, "param.driver": driver}
        for w, size in _GRID
        for engine, driver in (("old", "5.4"), ("new", "6.1"))
    ]
    sizes = [
        float(row["dataset_size"]) * (3 if row["param.engine"] == "old" else 1) for row in rows
    ]
    portfolio = _fit(rows, sizes)
    question: Row = {"workers": 4.0, "dataset_size": 4e3}

    both, _ = _answer(portfolio, question | {"param.engine": "new", "param.driver": "6.1"})
    alone, support = _answer(portfolio, question | named)

    assert alone == pytest.approx(both)
    assert (support.basis, support.unidentified) == ("measured", ())
