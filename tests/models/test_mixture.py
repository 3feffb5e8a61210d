"""A mixture answers in one pass what its members answer one by one."""

from collections.abc import Sequence

import numpy as np
import pytest
from typing_extensions import override

from models.features.layout import Layout, Role
from models.laws.scaling_laws import ScalingLaw
from models.members.mixture import Mixture
from models.members.regime_model import RegimeModel
from models.processes.gaussian import GaussianProcess
from models.tables import FloatArray
from models.trees.boosting import BoostedTrees

_ROLES: tuple[Role, ...] = ("workers", "dataset_size", "parameter")
_WEIGHTS = np.array([0.2, 0.5, 0.3])
_PROCESSES_KEEP = 30


def _layout(levels: Sequence[int]) -> Layout:
    return Layout(_ROLES, tuple(levels), tuple((0.0,) * count for count in levels))


def _rows(layout: Layout, n: int, seed: int) -> FloatArray:
    """Return rows: a feature of few values, two that hardly repeat, a gate and codes of levels."""
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n, layout.n_numeric))
    numeric[:, 0] = generator.integers(0, 4, n)
    codes = [generator.integers(0, count, n) for count in layout.levels]
    columns = [*numeric.T, numeric[:, 0] == 0, *codes]
    return np.stack(columns, axis=1).astype(np.float64)


@pytest.mark.parametrize("n", [1, 16, 60, 600])
@pytest.mark.parametrize("levels", [(), (3,), (40,), (30, 12)])
def test_mixture_is_the_weighted_sum_of_its_members(levels: Sequence[int], n: int) -> None:
    layout = _layout(levels)
    X, generator = _rows(layout, _PROCESSES_KEEP, 1), np.random.default_rng(2)
    y = -X[:, 0] + 0.8 * X[:, 1] + 0.1 * X[:, -1] + 0.02 * generator.normal(size=len(X))
    members = [
        ScalingLaw(layout).fit(X, y),
        GaussianProcess(layout, max_iterations=5).fit(X, y),
        GaussianProcess(layout, ScalingLaw(layout), held=True, max_iterations=5).fit(X, y),
    ]
    questions = _rows(layout, n, 3)

    forecast = Mixture(layout, members, RegimeModel(_WEIGHTS, np.ones(3), np.ones(1))).evaluate(
        questions
    )

    means, variances = map(
        np.array, zip(*(member.predict_moments(questions) for member in members), strict=True)
    )
    mean = _WEIGHTS @ means
    assert forecast.mean == pytest.approx(mean, abs=1e-10)
    expected = _WEIGHTS @ variances + _WEIGHTS @ (means - mean) ** 2
    assert forecast.variance == pytest.approx(expected, rel=1e-8)


class _OwnMember(BoostedTrees):
    """A member of another kind with a variance of its own."""

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        return X[:, 1], np.exp(X[:, 0])


@pytest.mark.parametrize("n", [1, 60])
def test_members_of_other_kinds_count_by_their_own_variance_or_held_out_errors(n: int) -> None:
    layout = _layout((3,))
    X, questions = _rows(layout, _PROCESSES_KEEP, 1), _rows(layout, n, 3)
    law, trees = (kind(layout).fit(X, X[:, 1] - X[:, 0]) for kind in (ScalingLaw, BoostedTrees))
    regime = RegimeModel(_WEIGHTS, np.array([7.0, 0.09, 8.0]), np.ones(1))

    forecast = Mixture(layout, [law, trees, _OwnMember(layout)], regime).evaluate(questions)

    law_mean, law_variance = law.predict_moments(questions)
    assert law_variance is not None
    means = np.array([law_mean, trees.predict(questions), questions[:, 1]])
    variances = np.array([law_variance, np.full(n, 0.09), np.exp(questions[:, 0])])
    mean = _WEIGHTS @ means
    assert forecast.mean == pytest.approx(mean, abs=1e-10)
    expected = _WEIGHTS @ variances + _WEIGHTS @ (means - mean) ** 2
    assert forecast.variance == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n", [60, 600])
@pytest.mark.parametrize("levels", [(), (3,), (30, 12)])
def test_a_row_among_many_is_answered_as_it_is_alone(levels: Sequence[int], n: int) -> None:
    layout = _layout(levels)
    X = _rows(layout, _PROCESSES_KEEP, 1)
    process = GaussianProcess(layout, max_iterations=5).fit(X, -X[:, 0] + 0.8 * X[:, 1])
    questions = _rows(layout, n, 3)
    questions[:, 2] = 0.25
    mixture = Mixture(layout, [process], RegimeModel(np.ones(1), np.ones(1), np.ones(1)))

    density = mixture.evaluate(questions)

    alone = [mixture.evaluate(questions[row : row + 1]) for row in range(n)]
    assert density.mean == pytest.approx([each.mean[0] for each in alone], abs=1e-10)
    assert density.variance == pytest.approx([each.variance[0] for each in alone], rel=1e-8)
