"""Workloads with more configurations than a process can hold."""

import numpy as np
import pytest

from models.explanations.influence import Influences
from models.features.encoder import Encoder
from models.features.layout import Layout
from models.features.ordering import structural_keys
from models.laws.scaling_laws import random_subset
from models.processes.gaussian import MAX_PROCESS_CONFIGURATIONS, GaussianProcess
from models.tables import FeatureTable, FloatArray

_LAYOUT = Layout(("workers", "parameter"), (), ())
_NOISE = 0.05


def _rows(n_rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return encoded configurations and log durations that no power law describes."""
    z = np.random.default_rng(seed).uniform(-2, 2, (n_rows, 2))
    return np.column_stack([z, np.zeros(n_rows)]), 5 - z[:, 0] + 0.3 * np.sin(2 * z.sum(axis=1))


def _error(process: GaussianProcess) -> float:
    X, truth = _rows(400, seed=9)
    return float(np.sqrt(np.mean((process.predict(X) - truth) ** 2)))


@pytest.fixture(scope="module")
def known() -> tuple[FloatArray, FloatArray]:
    X, truth = _rows(900, seed=1)
    return X, truth + _NOISE * np.random.default_rng(2).standard_normal(len(truth))


def test_configurations_that_a_process_does_not_hold_teach_it_all_the_same(
    known: tuple[FloatArray, FloatArray],
) -> None:
    X, y = known
    rows = random_subset(len(y), MAX_PROCESS_CONFIGURATIONS, seed=0)

    of_all = GaussianProcess(_LAYOUT).fit(X, y)
    of_some = GaussianProcess(_LAYOUT).fit(X[rows], y[rows])

    assert len(of_all.X_) == MAX_PROCESS_CONFIGURATIONS
    assert _error(of_all) < 0.75 * _error(of_some)


def test_repetitions_weigh_where_a_process_does_not_hold_them(
    known: tuple[FloatArray, FloatArray],
) -> None:
    X, y = known
    counts = np.ones(len(y))
    wrong = X[:, 1] > 0
    shifted = np.where(wrong & (np.arange(len(y)) % 2 == 0), y + 1.0, y)
    counts[wrong & (np.arange(len(y)) % 2 == 0)] = 1e-3

    weighted = GaussianProcess(_LAYOUT).fit(X, shifted, counts)
    alike = GaussianProcess(_LAYOUT).fit(X, shifted)

    assert _error(weighted) < 0.5 * _error(alike)


def test_every_configuration_of_a_large_workload_teaches_its_forecasts(
    known: tuple[FloatArray, FloatArray],
) -> None:
    X, y = known
    process = GaussianProcess(_LAYOUT).fit(X, y)
    questions, step = _rows(5, seed=4)[0], 1e-3
    held = {row.tobytes() for row in process.X_}
    others = [row for row in range(len(y)) if X[row].tobytes() not in held][:6]

    influences = Influences(_LAYOUT, {"process": process}, X).of(questions, np.ones(1)).sum(axis=1)

    for row in others:
        moved = process.refit_clone().fit(X, y + step * (np.arange(len(y)) == row))
        expected = (moved.predict(questions) - process.predict(questions)) / step
        assert influences[:, row] == pytest.approx(expected, abs=1e-5)


def test_of_many_categories_only_those_that_split_the_runs_alike_are_left_out() -> None:
    n_rows, rng = 20_000, np.random.default_rng(0)
    codes = {f"param.own_{index}": rng.integers(0, 5, n_rows) for index in range(30)}
    alike = {f"param.like_{index}": 4 - codes[f"param.own_{index}"] for index in range(10)}
    coarser = {"param.coarser": np.minimum(codes["param.own_0"], 3)}
    levels = {
        name: [f"{name} {code}" for code in column.tolist()]
        for name, column in (codes | alike | coarser).items()
    }

    categories = Encoder.learn(FeatureTable({}, levels, n_rows)).categories

    by_column = {category.column: category.used for category in categories}
    pairs = [(f"param.own_{index}", f"param.like_{index}") for index in range(10)]
    assert all(sum(by_column[name] for name in pair) == 1 for pair in pairs)
    assert all(by_column[name] for name in [*codes, *coarser][10:])


@pytest.mark.lengthy
def test_order_of_many_configurations_does_not_depend_on_names_of_many_levels() -> None:
    n_rows, rng = 20_000, np.random.default_rng(0)
    codes = {f"param.{index}": rng.integers(0, 5, n_rows).tolist() for index in range(30)}
    seconds = rng.lognormal(5, 1, n_rows)
    renamed = {
        f"param.{30 - index}": [f"level {4 - code}" for code in column]
        for index, column in enumerate(codes.values())
    }
    named = {name: [f"level {code}" for code in column] for name, column in codes.items()}

    keys, others = (
        structural_keys(FeatureTable({}, columns, n_rows), seconds) for columns in (named, renamed)
    )

    assert keys == others
    assert len(set(keys)) == n_rows
