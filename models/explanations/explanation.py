"""What a forecast is made of: the shares of measured phases, or of the terms of its laws."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from models.laws.law_priors import Term
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
