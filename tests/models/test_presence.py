"""Columns that half of the runs give: what giving both means, no run shows."""

import numpy as np
import pytest

from models import FittedPortfolio, RunTable, dumps, fit_portfolio, loads
from tests.models.workloads import make_features

Row = dict[str, float | str]

_GRID = [(workers, size) for workers in (1.0, 2.0, 4.0, 8.0) for size in (1e3, 4e3, 16e3)]
_QUESTION: Row = {"workers": 4.0, "dataset_size": 8e3}


def _fit(settings: list[Row]) -> FittedPortfolio:
    """Fit on all settings, each of which makes the runs slower by a factor of its own."""
    rows: list[Row] = []
    seconds: list[float] = []
    for workers, size in _GRID:
        for place, setting in enumerate(settings):
            rows.append({"workers": workers, "dataset_size": size, **setting})
            seconds.append(20 + size / workers * 1.5**place)
    noisy = np.array(seconds) * np.exp(np.random.default_rng(0).normal(0, 0.02, len(rows)))
    runs = RunTable(make_features(rows), noisy, [f"run_{row}" for row in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=600)


def _width(portfolio: FittedPortfolio, row: Row) -> float:
    lower, upper = portfolio.predict(make_features([row])).interval(0.9)
    return float(np.log(upper[0] / lower[0]))


_NUMBERS: list[Row] = [
    {"param.layers": 1.0},
    {"param.layers": 2.0},
    {"param.depth": 4.0},
    {"param.depth": 8.0},
]
_LEVELS: list[Row] = [{"param.a": "x"}, {"param.a": "y"}, {"param.b": "u"}, {"param.b": "v"}]
_MIXED: list[Row] = [
    {"param.a": "x"},
    {"param.a": "y"},
    {"param.depth": 4.0},
    {"param.depth": 8.0},
]


@pytest.mark.parametrize("settings", [_NUMBERS, _LEVELS, _MIXED])
def test_question_with_both_or_neither_of_two_alternatives_says_what_it_cannot_know(
    settings: list[Row],
) -> None:
    portfolio = loads(dumps(_fit(settings)))
    names = {name for setting in settings for name in setting}
    known = [_QUESTION | setting for setting in settings]
    unknown = [_QUESTION | settings[0] | settings[2], _QUESTION]

    for row, support in zip(known, portfolio.support(make_features(known)), strict=True):
        assert (support.basis, support.unidentified) == ("interpolated", ())
        assert _width(portfolio, row) < 0.3
    for row in unknown:
        (support,) = portfolio.support(make_features([row]))
        assert set(support.unidentified) == names
        assert (support.basis, support.within_range) == ("extrapolated", False)
        assert _width(portfolio, row) > 0.8


def test_any_two_of_three_alternatives_were_never_run_together() -> None:
    names = [f"param.option_{letter}" for letter in "abc"]
    values: list[Row] = [{name: value} for name in names for value in (2.0, 4.0)]
    portfolio = _fit(values)
    questions = make_features([_QUESTION | values[0], _QUESTION | values[0] | values[2]])

    alone, together = portfolio.support(questions)

    assert alone.unidentified == ()
    assert set(together.unidentified) == set(names)


def test_effects_that_runs_show_one_by_one_may_be_added() -> None:
    portfolio = _fit([{}, *_NUMBERS])
    questions = make_features([_QUESTION | _NUMBERS[0] | _NUMBERS[2], _QUESTION])

    assert [support.unidentified for support in portfolio.support(questions)] == [(), ()]


def test_what_is_not_known_of_two_questions_is_one_unknown() -> None:
    portfolio = _fit(_NUMBERS)
    rows = [_QUESTION | _NUMBERS[0] | _NUMBERS[2], _QUESTION | _NUMBERS[1] | _NUMBERS[3], _QUESTION]

    unknowns = portfolio.transfer.companions.unknowns(
        make_features(rows), portfolio.ask(make_features(rows)).encoded
    )

    assert unknowns.ravel().tolist() == pytest.approx(
        [unknowns[0, 0], unknowns[0, 0], -unknowns[0, 0]]
    )
    assert abs(unknowns[0, 0]) == pytest.approx(0.5)
