"""Single runs that the others refute lead no forecast; what could be structure is believed."""

from itertools import chain

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, RunTable, fit_portfolio
from models.features.encoder import Encoder
from models.features.layout import Layout
from models.reports import Outlier
from models.runs.configurations import collapse
from models.screening.eras import find_change_points
from models.screening.refutation import name_refuted, robust_residuals, without_refuted

Row = tuple[float, float, str]

ROWS = [(w, d, g) for w in (1.0, 2.0, 4.0, 8.0) for d in (1e3, 3e3, 9e3, 27e3) for g in "AB"]


def make_runs(factors: dict[int, float], rows: list[Row] = ROWS) -> RunTable:
    workers, size, levels = zip(*rows, strict=True)
    w, d = np.array(workers), np.array(size)
    seconds = 20 + d / w * np.where(np.array(levels) == "A", 1.0, 1.7)
    seconds *= np.exp(np.random.default_rng(1).normal(0, 0.02, len(rows)))
    for row, factor in factors.items():
        seconds[row] *= factor
    table = FeatureTable({"workers": w, "dataset_size": d}, {"gpu_type": list(levels)}, len(rows))
    return RunTable(table, seconds, [f"run_{row:03}" for row in range(len(rows))])


def find(runs: RunTable) -> tuple[Outlier, ...]:
    measured = collapse(runs)
    settled = without_refuted(measured, Encoder.learn(measured.features), 0)
    return name_refuted(measured, settled)


def teachers(portfolio: FittedPortfolio) -> set[str]:
    lessons = chain.from_iterable(portfolio.taught_by(make_runs({}).features))
    return {run_id for lesson in lessons for run_id in lesson.run_ids}


def rows_where(workers: float, size: float, level: str) -> int:
    return ROWS.index((workers, size, level))


@pytest.mark.parametrize(
    ("place", "factor"),
    [
        ((2.0, 3e3, "B"), 8.0),
        ((2.0, 3e3, "B"), 3.0),
        ((2.0, 3e3, "B"), 1 / 8),
        ((2.0, 3e3, "B"), 1e5),
        ((2.0, 3e3, "B"), 1e-5),
        # At the ends of axes, where other runs are too.
        ((8.0, 3e3, "B"), 8.0),
        ((1.0, 1e3, "B"), 1 / 8),
    ],
)
def test_a_run_that_the_rest_refutes_is_named_with_its_ratio(place: Row, factor: float) -> None:
    row = rows_where(*place)

    (found,) = find(make_runs({row: factor}))

    assert found.run_id == found.beside == f"run_{row:03}"
    assert found.ratio == pytest.approx(factor, rel=0.15)


def test_two_accidents_do_not_hide_each_other() -> None:
    rows = rows_where(2.0, 9e3, "A"), rows_where(4.0, 3e3, "B")

    found = find(make_runs({rows[0]: 8.0, rows[1]: 0.125}))

    assert {each.run_id for each in found} == {f"run_{row:03}" for row in rows}


def test_ordinary_noise_refutes_nothing() -> None:
    assert find(make_runs({})) == ()


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_the_only_run_at_the_end_of_an_axis_is_believed(factor: float) -> None:
    rows = [*ROWS, (64.0, 9e3, "A")]

    assert find(make_runs({len(ROWS): factor}, rows)) == ()


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_the_only_runs_of_a_level_are_believed(factor: float) -> None:
    rows = [*ROWS, (2.0, 9e3, "C"), (4.0, 9e3, "C")]

    assert find(make_runs({len(ROWS): factor}, rows)) == ()


def test_memory_that_overflows_is_believed_where_it_begins() -> None:
    assert find(make_runs({rows_where(1.0, 27e3, "B"): 5.0})) == ()


def test_a_cliff_of_several_runs_is_believed() -> None:
    beyond = [(1.0, 9e3), (1.0, 27e3), (2.0, 27e3)]

    assert find(make_runs({rows_where(w, d, "B"): 5.0 for w, d in beyond})) == ()


@pytest.mark.parametrize("factor", [1 / 3, 3.0])
def test_a_combination_of_levels_that_several_runs_show_is_believed(factor: float) -> None:
    corners = [(1.0, 1e3), (8.0, 27e3), (1.0, 27e3), (8.0, 1e3)]
    inside = [(2.0, 3e3), (4.0, 9e3), (2.0, 9e3), (4.0, 3e3)]
    rows = [*ROWS, *((w, d, "A") for w, d in corners), *((w, d, "B") for w, d in inside)]
    runs = make_runs(dict.fromkeys(range(len(ROWS) + 4, len(rows)), factor), rows)
    precision = ["fp32"] * len(ROWS) + ["fp16"] * 8
    levels = {**runs.features.categorical, "param.precision": precision}
    features = FeatureTable(runs.features.numeric, levels, runs.n_runs)

    assert find(RunTable(features, runs.duration_seconds, runs.run_ids)) == ()


def test_two_odd_runs_do_not_draw_the_others_residuals_to_themselves() -> None:
    X = np.column_stack([np.log(2.0) * np.arange(-6.0, 7.0), np.zeros(13)])
    y = X[:, 0].copy()
    y[[9, 11]] += np.log(8.0)

    residuals = robust_residuals(Layout(("dataset_size",), (), ()), X, y)

    assert np.flatnonzero(residuals).tolist() == [9, 11]


def test_repetitions_that_agree_are_believed() -> None:
    row = rows_where(2.0, 3e3, "B")
    rows = [*ROWS, ROWS[row]]

    assert find(make_runs({row: 8.0, len(ROWS): 8.0}, rows)) == ()


def test_few_configurations_refute_nothing() -> None:
    rows = [(2.0**n, 1e3, "A") for n in range(11)]

    assert find(make_runs({5: 8.0}, rows)) == ()


def test_an_accident_hardly_moves_the_forecasts_and_is_reported() -> None:
    row = rows_where(2.0, 3e3, "B")
    calm, odd = (
        fit_portfolio(make_runs(factors), seed=0, time_budget_s=30) for factors in ({}, {row: 8.0})
    )
    questions = make_runs({}).features

    ratios = odd.predict(questions).median() / calm.predict(questions).median()

    assert np.abs(np.log(ratios)).max() < 0.1
    assert [outlier.run_id for outlier in odd.report.evidence.outliers] == [f"run_{row:03}"]
    assert odd.report.n_runs == calm.report.n_runs == len(ROWS)
    assert f"run_{row:03}" in teachers(calm)
    assert f"run_{row:03}" not in teachers(odd)


def test_the_unit_of_the_durations_is_no_matter() -> None:
    runs = make_runs({rows_where(2.0, 3e3, "B"): 8.0})
    hours = RunTable(runs.features, runs.duration_seconds / 4096, runs.run_ids)
    settled = []
    for table in (runs, hours):
        measured = collapse(table)
        remaining = without_refuted(measured, Encoder.learn(measured.features), 0)
        settled.append(remaining.log_duration - np.median(remaining.log_duration))

    assert settled[0].tolist() == settled[1].tolist()


@pytest.mark.parametrize("factor", [8.0, 1 / 8])
def test_one_odd_run_is_no_change_of_the_code(factor: float) -> None:
    order = np.random.default_rng(2).permutation(len(ROWS))
    runs = make_runs({rows_where(2.0, 3e3, "B"): factor})
    dated = RunTable(runs.features, runs.duration_seconds, runs.run_ids, order.astype(np.float64))

    assert find_change_points(dated) == ()
