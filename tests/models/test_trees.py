"""Trees as tables: what LightGBM answers, and no damaged tree is ever walked."""

from collections.abc import Callable

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from models import ArtifactError
from models.features.encoder import Encoder
from models.features.layout import Layout
from models.laws.law_priors import TERMS
from models.laws.scaling_laws import ScalingLaw
from models.runs.configurations import collapse
from models.tables import FloatArray
from models.trees.boosting import BoostedTrees, ResidualTrees
from models.trees.lightgbm_text import read_trees
from models.trees.lookup import TreeArrays, TreeTables
from tests.models.workloads import grid, make_runs

_LAYOUT = Layout(("workers", "dataset_size"), (4, 40), ())


def _rows(n: int, seed: int, levels: tuple[int, int] = (0, 0)) -> FloatArray:
    generator = np.random.default_rng(seed)
    low, more = levels
    codes = [generator.integers(low, count + more, n) for count in (4, 40)]
    return np.column_stack([generator.normal(size=(n, 2)), np.zeros(n), *codes]).astype(np.float64)


def _answers(booster: lightgbm.Booster, X: FloatArray) -> FloatArray:
    return np.asarray(booster.predict(X, num_threads=1), dtype=np.float64)


@pytest.fixture(scope="module")
def text() -> str:
    X = _rows(300, 0)
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * X[:, 3] + X[:, 4] % 3
    model = lightgbm.LGBMRegressor(
        n_estimators=40,
        num_leaves=15,
        learning_rate=0.05,
        min_child_samples=10,
        n_jobs=1,
        verbosity=-1,
    )
    names = [f"x{index}" for index in range(5)]
    model.fit(X, y, feature_name=names, categorical_feature=names[3:])
    return str(model.booster_.model_to_string())


def test_tables_answer_as_lightgbm_does(text: str) -> None:
    questions = _rows(2000, 1, (-1, 30))
    booster = lightgbm.Booster(model_str=text)

    predicted = TreeTables(read_trees(text), 5).predict(questions)

    np.testing.assert_allclose(predicted, _answers(booster, questions), rtol=0, atol=1e-12)


def test_value_on_a_threshold_goes_left_as_in_lightgbm(text: str) -> None:
    booster = lightgbm.Booster(model_str=text)
    lines = [line for line in text.split("\n") if line.startswith("threshold=")]
    values = np.array(" ".join(line.removeprefix("threshold=") for line in lines).split(), float)
    questions = np.zeros((len(values), 5))
    questions[:, 0] = questions[:, 1] = values

    predicted = TreeTables(read_trees(text), 5).predict(questions)

    np.testing.assert_allclose(predicted, _answers(booster, questions), rtol=0, atol=1e-12)


def test_trees_that_never_split_are_constants() -> None:
    X, y = _rows(30, 0), np.full(30, 2.5)

    trees = BoostedTrees(_LAYOUT, 5).fit(X, y)

    np.testing.assert_allclose(trees.predict(X), 2.5)


def test_loaded_trees_answer_the_same_to_the_last_bit() -> None:
    X = _rows(300, 0)
    grown = BoostedTrees(_LAYOUT, 40).fit(X, X[:, 0] + X[:, 4] % 3)
    loaded = BoostedTrees(_LAYOUT)

    loaded.load_state(grown.to_state())

    questions = _rows(500, 1, (-1, 30))
    np.testing.assert_array_equal(loaded.predict(questions), grown.predict(questions))


def test_trees_that_are_asked_once_answer_as_tables_do() -> None:
    X, questions = _rows(300, 0), _rows(500, 1, (-1, 30))
    y = X[:, 0] + X[:, 4] % 3
    trees = BoostedTrees(_LAYOUT, 40).fit(X, y)

    again = trees.refit_clone().fit(X, y)

    np.testing.assert_allclose(
        again.predict(questions), trees.predict(questions), rtol=0, atol=1e-12
    )
    with pytest.raises(ValueError, match="no state"):
        again.to_state()


class _RoundedOtherwise(ScalingLaw):
    """A law whose optimum differs as it does on another processor."""

    @override
    def predict(self, X: FloatArray) -> FloatArray:
        noise = np.random.default_rng(1).uniform(-1e-10, 1e-10, len(X))
        return super().predict(X) + noise


def test_rounding_of_the_law_does_not_change_the_trees() -> None:
    configurations = collapse(make_runs(grid((1, 2, 4, 8), (500, 1000, 2000, 4000)), noise=0.1))
    encoder = Encoder.learn(configurations.features)
    X, layout = encoder.encode(configurations.features).X, encoder.layout

    one, other = (
        ResidualTrees(layout, law(layout, TERMS, 1.0))
        .fit(X, configurations.log_duration)
        .trees_.to_state()
        for law in (ScalingLaw, _RoundedOtherwise)
    )

    assert one.values == other.values
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def _replaced(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    def damage(text: str) -> str:
        lines = text.split("\n")
        place = next(index for index, line in enumerate(lines) if line.startswith(f"{name}="))
        values = change(lines[place].partition("=")[2].split())
        lines[place] = f"{name}=" + " ".join(values)
        return "\n".join(lines)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        _replaced("left_child", lambda values: ["0", *values[1:]]),
        _replaced("left_child", lambda values: [values[1], *values[1:]]),
        _replaced("right_child", lambda values: ["99", *values[1:]]),
        _replaced("right_child", lambda values: ["-99", *values[1:]]),
        _replaced("right_child", lambda values: ["1.5", *values[1:]]),
        _replaced("right_child", lambda values: values[1:]),
        _replaced("split_feature", lambda values: ["5", *values[1:]]),
        _replaced("split_feature", lambda values: ["-1", *values[1:]]),
        _replaced("threshold", lambda values: ["nan", *values[1:]]),
        _replaced("threshold", lambda values: ["inf", *values[1:]]),
        _replaced("leaf_value", lambda values: ["nan", *values[1:]]),
        _replaced("leaf_value", lambda values: ["one", *values[1:]]),
        _replaced("num_leaves", lambda _: ["17"]),
        _replaced("num_leaves", lambda _: ["0"]),
        _replaced("num_leaves", lambda _: [str(10**30)]),
        _replaced("is_linear", lambda _: ["1"]),
        _replaced("cat_boundaries", lambda values: ["0", str(10**12), *values[2:]]),
        _replaced("cat_boundaries", lambda _: []),
        _replaced("cat_threshold", lambda values: [str(2**40), *values[1:]]),
        _replaced("decision_type", lambda values: ["4"] * len(values)),
        _replaced("decision_type", lambda values: [str(int(v) ^ 1) for v in values]),
        lambda text: text.replace("\nTree=", "\nLeaf="),
        lambda text: text.partition("\nend of trees")[0] + "\nTree=9\nnum_leaves=3\n" * 1100,
    ],
)
def test_damaged_trees_are_refused(text: str, damage: Callable[[str], str]) -> None:
    with pytest.raises(ArtifactError, match="trees are damaged"):
        TreeTables(read_trees(damage(text)), 5)


@settings(max_examples=60)
@given(st.data())
def test_altered_text_is_refused_or_answers_finitely(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text) - 1))
    altered = text[:position] + data.draw(st.sampled_from("0123456789-e. \n=x")) + text[position:]

    try:
        predicted = TreeTables(read_trees(altered), 5).predict(_rows(5, 2))
    except ArtifactError:
        return

    assert np.isfinite(predicted).all()


def _tree(places: list[float], thresholds: list[float], kinds: list[float]) -> TreeArrays:
    """Return one tree that asks feature 0, whose leaves are 0, 1, 2 ... from left to right."""
    n = len(places)
    splits = np.array([[0.0] * n, thresholds, kinds, places])
    return TreeArrays(
        np.array([n + 1.0]), splits, np.arange(n + 1.0), np.array([6.0]), np.array([1.0])
    )


def _walked(places: list[float], thresholds: list[float], value: float) -> float:
    """Return the leaf that a walk from the root down ends at."""
    first, end = 0.0, len(places) + 1.0
    for place, threshold in zip(places, thresholds, strict=True):
        if first < place < end:
            first, end = (first, place) if value <= threshold else (place, end)
    return first


@settings(max_examples=100)
@given(st.data(), st.integers(1, 15))
def test_any_order_of_places_is_a_tree(data: st.DataObject, n: int) -> None:
    places = data.draw(st.permutations([float(place) for place in range(1, n + 1)]))
    numbers = st.integers(-3, 3).map(float)
    thresholds = data.draw(st.lists(numbers, min_size=n, max_size=n))
    questions = [-4.0, -1.0, -0.5, 0.0, 2.0, 4.0]

    tables = TreeTables(_tree(places, thresholds, [0.0] * n), 1)

    predicted = tables.predict(np.array(questions)[:, None]).tolist()
    assert predicted == [_walked(places, thresholds, value) for value in questions]


@pytest.mark.parametrize(
    "tree",
    [
        _tree([1.0, 1.0], [0.0, 1.0], [0.0, 0.0]),
        _tree([0.0, 1.0], [0.0, 1.0], [0.0, 0.0]),
        _tree([1.0, 3.0], [0.0, 1.0], [0.0, 0.0]),
        _tree([1.0, -2.0], [0.0, 1.0], [0.0, 0.0]),
        _tree([1.0, 1.5], [0.0, 1.0], [0.0, 0.0]),
        _tree([1.0, 1e29], [0.0, 1.0], [0.0, 0.0]),
        _tree([1.0, 2.0], [0.0, np.inf], [0.0, 0.0]),
        _tree([1.0, 2.0], [0.0, 1.0], [0.0, 2.0]),
        _tree([1.0, 2.0], [0.0, 1.0], [0.0, 0.5]),
        _tree([1.0, 2.0], [0.0, 0.0], [0.0, 1.0]),
        _tree([1.0, 2.0], [0.0, 1.0], [1.0, 1.0]),
        _tree([1.0, 2.0], [0.0, -1.0], [1.0, 1.0]),
        _tree([1.0, 2.0], [0.0, 0.5], [1.0, 1.0]),
    ],
)
def test_numbers_that_are_no_tree_are_refused(tree: TreeArrays) -> None:
    with pytest.raises(ArtifactError, match="trees are damaged"):
        TreeTables(tree, 1)


def test_set_of_levels_sends_its_levels_to_the_left() -> None:
    tables = TreeTables(_tree([1.0], [0.0], [1.0]), 1)

    assert tables.predict(np.array([[0.0], [1.0], [2.0], [3.0], [-1.0]])).tolist() == [
        1,
        0,
        0,
        1,
        1,
    ]
