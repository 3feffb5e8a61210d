"""What a forecast says about the runs that support it."""

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, RunTable, Support
from tests.models.workloads import fit, grid, make_features, make_runs

ROW: dict[str, float | str] = {
    "workers": 4, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100",
}  # fmt: skip


@pytest.fixture(scope="module")
def portfolio() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000))))


def _support(portfolio: FittedPortfolio, row: dict[str, float | str]) -> Support:
    return portfolio.support(make_features([row]))[0]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"workers": 3},
        {"workers": 16},
        {"dataset_size": 10},
        {"gpu_type": "K80"},
        {"param.depth": 3},
        {"epochs": 9},
    ],
)
def test_range_is_told_alike_with_and_without_the_rest_of_the_support(
    portfolio: FittedPortfolio, change: dict[str, float | str]
) -> None:
    without = {name: value for name, value in ROW.items() if name not in change}
    rows = make_features([ROW, ROW | change, *([without] if change else [])])

    within = portfolio.ask(rows).standing.within_range.tolist()

    assert within == [support.within_range for support in portfolio.support(rows)]
    assert within[0]
    assert [
        portfolio.ask(rows.take(np.array([row]))).standing.within_range[0]
        for row in range(rows.n_rows)
    ] == within


def test_nearest_runs_of_many_questions_are_those_of_each_alone() -> None:
    """Also where runs or questions name no level, or one that no run has."""
    rows = [*grid((1, 2, 4, 8), (1000, 4000)), *grid((1, 3, 9), (2000,))]
    for row in rows[-6:]:
        del row["gpu_type"]
    portfolio = fit(make_runs(rows), regressors=("log_linear",))
    asked = grid((1, 2, 3, 5, 8, 70), tuple(range(500, 6000, 250)), ("V100", "K80", "TPU", ""))
    for row in asked[::4]:
        del row["gpu_type"]
    questions = make_features(asked)
    assert questions.n_rows * 2 * len(rows) > 20_000

    many = portfolio.ask(questions).support

    for index, found in enumerate(many):
        assert portfolio.ask(questions.take(np.array([index]))).support == [found]


def test_measured_configuration_is_within_range_and_its_run_is_nearest(
    portfolio: FittedPortfolio,
) -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    measured = [s for s in portfolio.support(runs.features) if s.basis == "measured"]

    assert len(measured) == runs.n_runs
    assert all(support.within_range for support in measured)
    assert [s.nearest_run_ids[0] for s in measured] == list(runs.run_ids)
    assert all(len(support.nearest_run_ids) == 3 for support in measured)


def test_configuration_between_measured_ones_is_interpolated(portfolio: FittedPortfolio) -> None:
    support = _support(portfolio, ROW | {"workers": 3.0})

    assert (support.basis, support.within_range) == ("interpolated", True)


def test_axes_outside_are_named_with_range_and_distance(portfolio: FittedPortfolio) -> None:
    support = _support(portfolio, ROW | {"workers": 64.0, "dataset_size": 8000.0})

    workers, size = support.axes
    assert (workers.name, workers.asked) == ("workers", 64.0)
    assert (workers.measured_min, workers.measured_max) == (1.0, 8.0)
    assert workers.distance == pytest.approx(1.0)
    assert size.name == "dataset_size"
    assert size.distance == pytest.approx(0.5)
    assert (support.basis, support.within_range) == ("extrapolated", False)


def test_unseen_level_is_named(portfolio: FittedPortfolio) -> None:
    support = _support(portfolio, ROW | {"gpu_type": "TPU"})

    assert support.unseen_levels == (("gpu_type", "TPU"),)
    assert support.basis == "prior"


def test_constant_asked_otherwise_is_unidentified_and_outside(portfolio: FittedPortfolio) -> None:
    support = _support(portfolio, ROW | {"epochs": 20.0})

    assert support.unidentified == ("epochs",)
    assert [axis.name for axis in support.axes] == ["epochs"]


def test_unknown_and_missing_columns_are_unidentified(portfolio: FittedPortfolio) -> None:
    row: dict[str, float | str] = {"workers": 4.0, "epochs": 2.0, "param.depth": 3.0}

    support = _support(portfolio, row)

    assert support.unidentified == ("dataset_size", "gpu_type", "param.depth")
    assert not support.within_range


def test_columns_that_some_runs_leave_out_are_known() -> None:
    given: dict[str, float | str] = {"param.never_varied": 3.0, "param.library": "new"}
    portfolio = fit(make_runs([row | (given if n > 2 else {}) for n, row in enumerate(grid())]))

    support = _support(portfolio, grid()[0] | given)

    assert support.unidentified == ()


def test_constants_that_are_left_out_are_taken_as_they_were() -> None:
    rows = [row | {"param.depth": 50.0, "param.precision": "fp16"} for row in grid()]
    portfolio = fit(make_runs(rows))
    within = rows[0] | {"workers": 3.0}
    constants = ("param.depth", "param.precision", "epochs")
    left_out = [{k: v for k, v in within.items() if k != name} for name in constants]
    questions = [within, *left_out]

    supports = portfolio.support(make_features(questions))
    forecast = portfolio.predict(make_features(questions))

    assert [support.unidentified for support in supports] == [()] * len(questions)
    assert {(support.basis, support.within_range) for support in supports} == {
        ("interpolated", True)
    }
    assert forecast.scale.tolist() == pytest.approx([forecast.scale[0]] * len(questions))
    assert _support(portfolio, left_out[0]).within_range


def test_constant_parameter_asked_otherwise_widens_and_is_named() -> None:
    rows = [row | {"param.depth": 50.0} for row in grid()]
    portfolio = fit(make_runs(rows))
    features = make_features([rows[0], rows[0] | {"param.depth": 200.0}])

    known, other = portfolio.predict(features).scale

    assert other > known
    assert portfolio.support(features)[1].unidentified == ("param.depth",)


def test_local_batch_outside_is_told_apart_from_the_global_one() -> None:
    rows = [row | {"batch_size": 64.0 * float(row["workers"])} for row in grid()]
    portfolio = fit(make_runs(rows))

    axes = portfolio.support(make_features([rows[0] | {"batch_size": 512.0}]))[0].axes

    assert [(axis.name, axis.asked) for axis in axes] == [("batch_size_per_worker", 512.0)]


def test_nodes_are_judged_by_the_workers_on_each() -> None:
    rows: list[dict[str, float | str]] = [
        {"workers": 8.0, "nodes": nodes, "dataset_size": size}
        for nodes in (1.0, 2.0, 4.0)
        for size in (1000.0, 2000.0, 3000.0)
    ]
    portfolio = fit(make_runs(rows))

    axes = portfolio.support(make_features([rows[0] | {"nodes": 16.0}]))[0].axes

    assert [(axis.name, axis.asked, axis.measured_min) for axis in axes] == [
        ("workers_per_node", 0.5, 2.0)
    ]


def test_nodes_too_few_to_divide_by_are_left_open() -> None:
    rows = [{**row, "nodes": nodes} for row in grid((4, 8, 16)) for nodes in (1, 2)]
    portfolio = fit(make_runs(rows))
    asked = [{**rows[0], "nodes": 64}, {**rows[0], "workers": 1e10, "nodes": 1e-300}]

    sparse, unknown = portfolio.support(make_features(asked))

    assert [axis.name for axis in sparse.axes] == ["workers_per_node"]
    assert [axis.name for axis in unknown.axes] == ["workers"]
    assert "nodes" in unknown.unidentified


def test_level_with_few_runs_is_transferred() -> None:
    rows = [*grid((1, 2, 4, 8), (1000, 2000, 4000), ("V100",)), *grid((1, 2), (1000,), ("K80",))]
    portfolio = fit(make_runs(rows))

    support = _support(portfolio, ROW | {"gpu_type": "K80", "workers": 8.0})

    assert support.basis == "transferred"
    assert support.within_range
    assert support.rare_levels == (("gpu_type", "K80"),)
    assert _support(portfolio, ROW).rare_levels == ()


def test_leaving_out_what_few_runs_leave_out_is_a_rare_level() -> None:
    silent = [{name: value for name, value in ROW.items() if name != "gpu_type"}]
    rows = [*grid((1, 2, 4, 8), (1000, 2000, 4000), ("V100",)), *silent]

    support = _support(fit(make_runs(rows)), silent[0])

    assert support.rare_levels == (("gpu_type", None),)


def test_supports_of_many_are_those_of_each() -> None:
    rows = [*grid((1, 2, 4, 8), (1000, 2000, 4000), ("V100",)), *grid((1, 2), (1000,), ("K80",))]
    portfolio = fit(make_runs(rows))
    asked = grid((2, 8, 64), (1000, 9000), ("K80", "V100", "T4"))

    together = portfolio.support(make_features(asked))

    assert together == [_support(portfolio, each) for each in asked]
    assert len({support.rare_levels for support in together}) == 2


def test_two_configurations_are_no_trend() -> None:
    portfolio = fit(make_runs(grid((1, 2), (1000,), ("V100",))))

    assert _support(portfolio, ROW | {"workers": 1.5}).basis == "prior"


def test_ranges_of_columns_with_zeros_keep_their_units() -> None:
    rows: list[dict[str, float | str]] = [
        {"workers": w, "param.share": 0.25 * k, "param.buffer": 0.0 if k == 0 else 1000.0**k}
        for w in (1, 2)
        for k in (0, 1, 2)
    ]
    portfolio = fit(make_runs(rows))

    axes = portfolio.support(
        make_features([{"workers": 1, "param.share": 0.75, "param.buffer": 1e8}])
    )[0].axes

    ranges = {axis.name: (axis.measured_min, axis.measured_max) for axis in axes}
    assert ranges == {"param.share": (0.0, 0.5), "param.buffer": (0.0, 1e6)}


def test_empty_question_has_an_empty_answer(portfolio: FittedPortfolio) -> None:
    nothing = FeatureTable({}, {}, 0)

    assert portfolio.predict(nothing).median().shape == (0,)
    assert portfolio.support(nothing) == []
    assert portfolio.ask(nothing).standing.within_range.shape == (0,)


def test_ten_thousand_rows_are_answered_as_one_by_one(portfolio: FittedPortfolio) -> None:
    generator = np.random.default_rng(0)
    rows = [
        ROW | {"workers": float(w), "gpu_type": gpu}
        for w, gpu in zip(
            generator.integers(1, 40, 50), generator.choice(["V100", "K80", "new"], 50), strict=True
        )
    ]

    together = portfolio.predict(make_features(rows))

    for index, row in enumerate(rows):
        single = portfolio.predict(make_features([row]))
        assert single.log_median[0] == pytest.approx(together.log_median[index], abs=1e-9)
        assert single.scale[0] == pytest.approx(together.scale[index], abs=1e-9)


@pytest.mark.parametrize(
    ("constant", "asked"), [(1.0, 0.0), (50.0, 0.0), (50.0, -1.0), (0.0, 1.0), (-1.0, 100.0)]
)
def test_what_was_on_or_off_in_all_runs_counts_as_one_unit(constant: float, asked: float) -> None:
    rows = [row | {"param.switch": constant} for row in grid()]
    portfolio = fit(make_runs(rows))
    turned = make_features([rows[0] | {"param.switch": asked}])
    bounds = portfolio.predict(turned).interval(0.9)

    support = portfolio.support(turned)[0]

    assert support.unidentified == ("param.switch",)
    assert [(axis.name, axis.asked) for axis in support.axes] == [("param.switch", asked)]
    assert 1.5 < bounds[1][0] / bounds[0][0] < 4
    assert portfolio.encoder.encode(turned).excess.max() == pytest.approx(1.0)


def test_zero_of_a_parameter_that_never_was_is_no_thousandth_of_it() -> None:
    rows = [row | {"param.rounds": rounds} for row in grid() for rounds in (2.0, 4.0, 8.0)]
    runs = make_runs(rows)
    table = RunTable(
        runs.features,
        runs.duration_seconds * runs.features.numeric["param.rounds"],
        runs.run_ids,
    )
    portfolio = fit(table)
    questions = make_features([rows[0], rows[0] | {"param.rounds": 0.0}])

    two, none = portfolio.predict(questions).median()

    assert two / 5 < none < two
    alone = portfolio.predict(questions.take(np.array([1]))).median()[0]
    assert alone == pytest.approx(none, rel=1e-12)


def test_parameters_in_proportion_are_answered_alike_for_all_workers() -> None:
    """Both are as far out; which of the two is farther would be up to the last digit."""
    shapes = {"small": (4.0, 30.5), "large": (8.0, 61.0), "lean": (8.0, 32.0)}
    rows: list[dict[str, float | str]] = [
        {"workers": n, "gpu_type": name, "param.cores": cores * n, "param.memory": memory * n}
        for n in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
        for name, (cores, memory) in shapes.items()
    ]
    seconds = np.array([600 / float(row["param.cores"]) ** 0.8 + 3 for row in rows])
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(rows))
    names = [str(number) for number in range(len(rows))]
    portfolio = fit(RunTable(make_features(rows), seconds * np.exp(noise), names))
    of_all: dict[str, float | str] = {"gpu_type": "small", "param.cores": 48, "param.memory": 366}
    questions = [of_all | {"workers": float(n)} for n in range(13, 65)]

    supports = portfolio.support(make_features(questions))
    forecast = portfolio.predict(make_features(questions))
    alone = [portfolio.predict(make_features([row])) for row in questions]

    assert {tuple(axis.name for axis in each.axes) for each in supports} == {
        ("param.memory_per_worker", "param.cores_per_worker", "workers")
    }
    widths = np.log(forecast.quantile(0.95) / forecast.quantile(0.05))
    assert np.diff(widths).min() > 0
    of_one = [float(np.log(each.quantile(0.95) / each.quantile(0.05))[0]) for each in alone]
    assert of_one == pytest.approx(widths.tolist())


@pytest.mark.parametrize("n_rows", [1, 7])
def test_departures_are_those_of_the_support(portfolio: FittedPortfolio, n_rows: int) -> None:
    changes: list[dict[str, float | str]] = [
        {"workers": 16, "dataset_size": 10},
        {},
        {"gpu_type": "K80", "epochs": 9},
        {"param.depth": 3},
        {"workers": 3},
        {"dataset_size": 1e6, "workers": 99},
        {"gpu_type": "K80"},
    ]
    questions = make_features([ROW | change for change in changes[:n_rows]])

    departures = portfolio.ask(questions).standing.departures

    supports = portfolio.support(questions)
    assert departures.keys() == {
        row for row, support in enumerate(supports) if not support.within_range
    }
    for row, departure in departures.items():
        support = supports[row]
        assert departure == (support.axes, support.unseen_levels, support.unidentified)
        assert departure.axes or departure.unseen_levels or departure.unidentified


@pytest.mark.parametrize("asked", [-1.0, -1e6])
@pytest.mark.parametrize("n_rows", [1, 2])
def test_negative_number_of_what_was_zero_or_more_is_beyond_its_range(
    asked: float, n_rows: int
) -> None:
    rows = [{"workers": w, "param.n": n} for w in (1, 2, 4) for n in (0.0, 1.0, 10.0, 1000.0)]
    runs = make_runs(rows, seed=3)

    supports = fit(runs).support(make_features([{"workers": 2, "param.n": asked}] * n_rows))

    for support in supports:
        assert [(axis.name, axis.asked, axis.measured_min) for axis in support.axes] == [
            ("param.n", asked, 0.0)
        ]
        assert support.basis != "measured"
