"""What a forecast is made of: the shares of the terms of the laws behind it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from models.laws.law_priors import TERMS, Term
from models.tables import FloatArray, IntArray

TermName = Literal["computation", "overhead", "communication", "fixed"]

TERM_NAMES: Mapping[Term, TermName] = {
    "compute": "computation",
    "overhead": "overhead",
    "comm": "communication",
    "fixed": "fixed",
}
_MIN_SHARE = 1e-3
"""Shares below this are not reported."""


class TermShare(NamedTuple):
    """The share, within (0, 1], of a forecast duration that one term of the laws accounts for.

    ``computation`` is divided among the workers, ``overhead`` comes with each step or with the
    data, ``communication`` synchronises workers, ``fixed`` depends on none of these.
    """

    term: TermName
    share: float


class PhaseShare(NamedTuple):
    """The share, within (0, 1], of a forecast duration that one measured phase accounts for."""

    phase: str
    share: float


Share = TypeVar("Share", TermShare, PhaseShare)
Name = TypeVar("Name", bound=str)


def explain_rows(shares: FloatArray) -> list[tuple[TermShare, ...]]:
    """Return the shares of `TERMS` in each row, the largest first, without those below 0.1 %.

    Examples
    --------
    >>> import numpy as np
    >>> explain_rows(np.array([[0.25, 0.0, 0.75, 0.0]]))
    [(TermShare(term='communication', share=0.75), TermShare(term='computation', share=0.25))]
    """
    return name_shares([TERM_NAMES[term] for term in TERMS], shares, TermShare)


def name_shares(
    names: Sequence[Name], shares: FloatArray, kind: Callable[[Name, float], Share]
) -> list[tuple[Share, ...]]:
    """Return the named shares of each row, the largest first, without those below 0.1 %."""
    order, reported = ranked(shares)
    return [
        tuple(kind(names[column], share) for column, share in zip(*row, strict=True) if share > 0)
        for row in zip(order.tolist(), reported.tolist(), strict=True)
    ]


def ranked(shares: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return for each row the columns by falling share, and their shares of those reported.

    Both have the shape of `shares`; unreported shares (below 0.1 %) are 0 and come last.

    Examples
    --------
    >>> import numpy as np
    >>> order, reported = ranked(np.array([[0.25, 0.0, 0.75]]))
    >>> order.tolist(), reported.tolist()
    ([[2, 0, 1]], [[0.75, 0.25, 0.0]])
    """
    reported = np.where(shares >= _MIN_SHARE, shares, 0.0)
    order = (-reported).argsort(axis=1, kind="stable")
    total = np.add.reduce(reported, axis=1, keepdims=True)
    reported = reported[np.arange(len(reported))[:, None], order] / np.where(
        total > 0.0, total, 1.0
    )
    return order, reported
