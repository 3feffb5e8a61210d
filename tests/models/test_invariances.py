"""What may not matter does not matter, to the last bit: unit, order, names, idle columns."""

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, dumps, loads
from models.features.ordering import structural_keys
from tests.models.workloads import fit, grid, make_features, make_runs, run_tables

pytestmark = pytest.mark.lengthy

FEW = settings(max_examples=6)

_QUESTIONS = make_features(grid((1, 3, 16, 64), (500, 3000, 9000), ("V100", "K80", "T4")))
_WORKLOADS = {
    "6 configurations": make_runs(grid((1, 2, 4), (1000,))),
    "16 configurations": make_runs(grid()),
    "repetitions": make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=2)),
    "constant duration": RunTable(
        make_runs(grid()).features, np.full(16, 5.0), [str(row) for row in range(16)]
    ),
}


@pytest.fixture(params=sorted(_WORKLOADS), scope="module")
def runs(request: pytest.FixtureRequest) -> RunTable:
    return _WORKLOADS[request.param]


@pytest.fixture(scope="module")
def portfolio(runs: RunTable) -> FittedPortfolio:
    return fit(runs)


def _with(runs: RunTable, features: FeatureTable) -> RunTable:
    return RunTable(features, runs.duration_seconds, runs.run_ids)


def _answers(portfolio: FittedPortfolio, questions: FeatureTable) -> FloatArray:
    forecast = portfolio.predict(questions)
    return np.column_stack([forecast.log_median, forecast.scale, forecast.curves])


@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e6])
def test_durations_times_k_give_forecasts_times_k(
    runs: RunTable, portfolio: FittedPortfolio, factor: float
) -> None:
    scaled = fit(RunTable(runs.features, factor * runs.duration_seconds, runs.run_ids))

    found, expected = scaled.predict(_QUESTIONS), portfolio.predict(_QUESTIONS)

    np.testing.assert_allclose(found.median(), factor * expected.median(), rtol=1e-7)
    np.testing.assert_array_equal(found.scale, expected.scale)
    np.testing.assert_array_equal(found.curves, expected.curves)


@FEW
@given(run_tables(), st.floats(1e-3, 1e3))
def test_any_durations_times_k_give_forecasts_times_k(runs: RunTable, factor: float) -> None:
    scaled = fit(RunTable(runs.features, factor * runs.duration_seconds, runs.run_ids))

    found, expected = scaled.predict(runs.features), fit(runs).predict(runs.features)

    np.testing.assert_allclose(found.log_median, expected.log_median + np.log(factor), atol=1e-6)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_row_order_is_no_matter(runs: RunTable, portfolio: FittedPortfolio, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(runs.n_runs)

    assert dumps(fit(runs.take(order))) == dumps(portfolio)


@FEW
@given(run_tables(), st.randoms(use_true_random=False))
def test_row_order_of_any_runs_is_no_matter(runs: RunTable, random: Random) -> None:
    order = list(range(runs.n_runs))
    random.shuffle(order)

    assert dumps(fit(runs.take(np.array(order)))) == dumps(fit(runs))


def test_row_order_of_dated_runs_is_no_matter() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    seconds = np.where(np.arange(24) < 12, 1.0, 1.6) * runs.duration_seconds
    dated = RunTable(runs.features, seconds, runs.run_ids, np.resize([5.0, 1.0, 9.0, 2.0], 24))
    order = np.random.default_rng(0).permutation(24)

    assert dumps(fit(dated.take(order))) == dumps(fit(dated))


def test_column_order_is_no_matter(runs: RunTable, portfolio: FittedPortfolio) -> None:
    features = runs.features
    numeric = dict(reversed(list(features.numeric.items())))
    categorical = dict(reversed(list(features.categorical.items())))
    reordered = FeatureTable(numeric, categorical, features.n_rows)

    assert dumps(fit(_with(runs, reordered))) == dumps(portfolio)


def _renamed(table: FeatureTable, column: str, names: Mapping[str, str]) -> FeatureTable:
    levels = [names[str(level)] for level in table.categorical["gpu_type"]]
    return FeatureTable(table.numeric, {column: levels}, table.n_rows)


@pytest.mark.parametrize("column", ["gpu_type", "instance_type", "param.kind"])
@pytest.mark.parametrize("names", [("zebra", "aa", "m"), ("Größe 7", "0", ""), ("T4", "x", "A")])
def test_names_of_categories_are_no_matter(
    runs: RunTable, column: str, names: tuple[str, ...]
) -> None:
    kinds = ("V100", "K80", "T4")
    plain, other = ({kind: kind for kind in kinds}, dict(zip(kinds, names, strict=True)))

    found, expected = (
        _answers(fit(_with(runs, _renamed(runs.features, column, each))), questions)
        for each, questions in (
            (naming, _renamed(_QUESTIONS, column, naming)) for naming in (other, plain)
        )
    )

    # Levels that no duration tells apart stand by name: exchanged, they differ by rounding alone.
    is_telling = len(set(runs.duration_seconds.tolist())) > 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=0 if is_telling else 1e-11)


@pytest.mark.parametrize("value", [0.0, -3.7, 0.1, 1e6])
def test_columns_that_never_vary_change_nothing(
    runs: RunTable, portfolio: FittedPortfolio, value: float
) -> None:
    def widened(table: FeatureTable) -> FeatureTable:
        numeric = {"param.constant": np.full(table.n_rows, value), **table.numeric}
        kinds = {"param.also": ["same"] * table.n_rows, **table.categorical}
        return FeatureTable(numeric, kinds, table.n_rows)

    answers = _answers(fit(_with(runs, widened(runs.features))), widened(_QUESTIONS))

    np.testing.assert_array_equal(answers, _answers(portfolio, _QUESTIONS))


@pytest.mark.parametrize("value", [1e-4, 0.7, 12.0])
def test_column_that_never_varies_is_no_total_over_workers_that_never_vary(value: float) -> None:
    def table(workers: FloatArray, sizes: FloatArray) -> FeatureTable:
        columns = {"workers": workers, "dataset_size": sizes}
        constant = np.full(len(sizes), value)
        return FeatureTable({**columns, "param.constant": constant}, {}, len(sizes))

    sizes = np.geomspace(1e3, 1e5, 10)
    runs = RunTable(table(np.full(10, 8.0), sizes), sizes / 50, [str(row) for row in range(10)])

    support = fit(runs).support(table(np.array([16.0]), np.array([5e3])))[0]

    assert [axis.name for axis in support.axes] == ["workers"]
    assert support.unidentified == ("workers",)


def test_levels_of_two_categories_are_told_apart_by_each_other() -> None:
    workers, seconds = np.array([1.0, 2.0] * 4), np.full(8, 3.0)
    kinds = ["a"] * 4 + ["b"] * 4
    zones = ["x", "x", "y", "y", "y", "y", "z", "z"]

    keys, renamed = (
        structural_keys(
            FeatureTable({"workers": workers}, {"kind": kinds, "param.zone": levels}, 8), seconds
        )
        for levels in (zones, [{"x": "9", "y": "0", "z": "3"}[zone] for zone in zones])
    )

    assert len(set(keys)) == 8
    assert sorted(keys) == sorted(renamed)


_PLAIN = {name: name for name in ("param.depth", "param.width", "param.kind", "param.zone")}
_OTHERS = [
    {
        "param.depth": "param.z",
        "param.width": "param.a",
        "param.kind": "k",
        "param.zone": "param.b",
    },
    {"param.depth": "width", "param.width": "depth", "param.kind": "zone", "param.zone": "kind"},
    {"param.depth": "0", "param.width": "", "param.kind": "Größe 7", "param.zone": "\u2713"},
]


def _with_parameters(n: int, seed: int, names: Mapping[str, str]) -> FeatureTable:
    generator = np.random.default_rng(seed)
    workers = np.exp2(generator.integers(0, 4, n)).astype(np.float64)
    depth, width = (generator.integers(2, 6, n).astype(np.float64) for _ in range(2))
    kinds, zones = (generator.choice(["a", "b", "c"], n).tolist() for _ in range(2))
    numeric = {"workers": workers, names["param.depth"]: depth, names["param.width"]: width}
    return FeatureTable(numeric, {names["param.kind"]: kinds, names["param.zone"]: zones}, n)


@pytest.mark.parametrize("names", _OTHERS)
@pytest.mark.parametrize("n", [6, 40])
def test_names_of_parameters_are_no_matter(n: int, names: Mapping[str, str]) -> None:
    plain = _with_parameters(n, 0, _PLAIN)
    seconds = plain.numeric["param.depth"] ** 0.8 * plain.numeric["param.width"] ** 0.3
    seconds = seconds * 90 / plain.numeric["workers"] + np.linspace(1, 2, n)
    run_ids = [str(row) for row in range(n)]

    found, expected = (
        _answers(
            fit(RunTable(_with_parameters(n, 0, naming), seconds, run_ids)),
            _with_parameters(30, 1, naming),
        )
        for naming in (names, _PLAIN)
    )

    np.testing.assert_array_equal(found, expected)


def test_parameter_that_is_called_like_new_levels_of_another_is_one_of_its_own() -> None:
    workers, depth = np.tile([1.0, 2.0, 4.0], 12), np.repeat([1.0, 2, 4, 8, 16, 32], 6)
    kinds = ["x", "y", "x", "x"] * 9
    seconds = 90 * depth**0.8 / workers * np.linspace(1, 1.2, 36)

    def answers(name: str) -> FloatArray:
        columns = {"workers": workers, name: depth}
        features = FeatureTable(columns, {"param.kind": kinds}, 36)
        portfolio = fit(RunTable(features, seconds, [str(row) for row in range(36)]))
        asked = {"workers": np.full(3, 2.0), name: np.array([8.0, 200.0, 8.0])}
        questions = FeatureTable(asked, {"param.kind": ["x", "x", "z"]}, 3)
        return _answers(loads(dumps(portfolio)), questions)

    np.testing.assert_array_equal(answers("param.kind:new"), answers("param.depth"))


def _in_units(table: FeatureTable, units: Mapping[str, float]) -> FeatureTable:
    numeric = {name: column * units.get(name, 1.0) for name, column in table.numeric.items()}
    return FeatureTable(numeric, table.categorical, table.n_rows)


@pytest.mark.parametrize("unit", [1e-9, 1 / 3, 1024.0])
def test_units_of_the_dataset_size_are_no_matter(
    runs: RunTable, portfolio: FittedPortfolio, unit: float
) -> None:
    units = {"dataset_size": unit}

    found = _answers(
        fit(_with(runs, _in_units(runs.features, units))), _in_units(_QUESTIONS, units)
    )

    np.testing.assert_allclose(found, _answers(portfolio, _QUESTIONS), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, -3.0])
@pytest.mark.parametrize("units", [(1e-3, 1.0), (1.0, 1e-6), (60.0, 1024.0)])
def test_units_of_parameters_are_no_matter(units: tuple[float, float], offset: float) -> None:
    scales = dict(zip(("param.depth", "param.width"), units, strict=True))
    tables = [_with_parameters(n, seed, _PLAIN) for n, seed in ((40, 0), (30, 1))]
    for table in tables:
        table.numeric["param.width"][:] += offset
    runs, questions = tables
    seconds = 90 * runs.numeric["param.depth"] ** 0.8 / runs.numeric["workers"]
    seconds = seconds * np.linspace(1, 1.2, 40)
    run_ids = [str(row) for row in range(40)]

    found, expected = (
        _answers(fit(RunTable(_in_units(runs, used), seconds, run_ids)), _in_units(questions, used))
        for used in (scales, {})
    )

    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_numbers_of_any_size_have_different_keys() -> None:
    numbers = np.array([-1e100, -5e-324, 0.0, np.nan, 5e-324, 1.0, 1 + 1e-9, 1e100])

    keys = structural_keys(FeatureTable({"param.x": numbers}, {}, 8), np.ones(8))

    assert len(set(keys)) == 8


def test_columns_with_the_same_values_are_told_apart_by_the_durations() -> None:
    depth, width = np.array([1.0, 2.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0, 2.0])
    seconds = np.array([3.0, 7.0, 4.0, 9.0])

    keys, renamed = (
        structural_keys(FeatureTable({one: depth, other: width}, {}, 4), seconds)
        for one, other in (("a", "b"), ("b", "a"))
    )

    assert keys == renamed


@pytest.mark.parametrize("unit", [1e-3, 0.3, 60.0, 1e6])
def test_numbers_whose_ratios_are_ties_have_the_same_keys_in_any_unit(unit: float) -> None:
    numbers = np.array([0.032, 5.451, 8.41, -4.325])

    keys, in_units = (
        structural_keys(FeatureTable({"param.x": numbers * scale}, {}, 4), np.ones(4))
        for scale in (1.0, unit)
    )

    assert in_units == keys
