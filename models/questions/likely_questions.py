"""Likely questions about workloads with few configurations, and the members' answers to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.features.layout import Layout
from models.questions.regimes import INTERPOLATION
from models.regressor import PortfolioRegressor
from models.tables import FloatArray

UNTESTED_VARIANCE = 0.25
"""Variance of a member that gives none, where nothing was held out."""

_DOUBLING = float(np.log(2))


@dataclass(frozen=True, slots=True)
class Answers:
    """Means and variances of log durations by each member, each of shape (n_members, n)."""

    means: FloatArray
    variances: FloatArray


def likely_questions(layout: Layout, axes: Sequence[str], X: FloatArray) -> dict[str, FloatArray]:
    """Return likely questions among the configurations, and beyond the range of each axis.

    Among them, as ``interpolation``: each configuration with one column taken from the previous
    one. Beyond an axis: each configuration moved above its range by the range's width, at least by
    a factor of two.

    Parameters
    ----------
    layout
        How to read the columns of X.
    axes
        Names of the first columns of X.
    X
        The configurations.

    Examples
    --------
    >>> layout = Layout(("workers",), (), ())
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> found = likely_questions(layout, ["workers"], X)
    >>> found["interpolation"].tolist(), found["workers"].tolist()
    ([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [2.0, 0.0]])
    """
    return {INTERPOLATION: _exchange_columns(X)} | {
        name: _move_beyond(layout, column, X) for column, name in enumerate(axes)
    }


def _exchange_columns(X: FloatArray) -> FloatArray:
    exchanged_rows = []
    for column in range(X.shape[1]):
        exchanged = X.copy()
        exchanged[:, column] = np.roll(X[:, column], 1)
        exchanged_rows.append(exchanged[exchanged[:, column] != X[:, column]])
    questions = np.concatenate(exchanged_rows)
    return questions if len(questions) else X


def _move_beyond(layout: Layout, column: int, X: FloatArray) -> FloatArray:
    low, high = X[:, column].min(), X[:, column].max()
    questions = X.copy()
    questions[:, column] = high + max(high - low, _DOUBLING)
    if layout.roles[column] == "workers":
        # Several workers synchronise: the gate is off.
        questions[:, layout.n_numeric] = 0.0
    return questions


def ask(
    members: Iterable[PortfolioRegressor], questions: Mapping[str, FloatArray]
) -> dict[str, Answers]:
    """Return the members' answers to each kind of question."""
    X = np.concatenate(list(questions.values()))
    moments = [member.predict_moments(X) for member in members]
    means = np.array([mean for mean, _ in moments])
    default = np.full(len(X), UNTESTED_VARIANCE)
    variances = np.array([default if variance is None else variance for _, variance in moments])
    stops = np.cumsum([len(rows) for rows in questions.values()]).tolist()
    return {
        name: Answers(means[:, stop - len(rows) : stop], variances[:, stop - len(rows) : stop])
        for (name, rows), stop in zip(questions.items(), stops, strict=True)
    }
