"""What a forecast is made of: the shares of the terms of the laws behind it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from models.power_laws import Term
from models.tables import FloatArray

TermName = Literal["computation", "overhead", "communication", "fixed"]

TERM_NAMES: Mapping[Term, TermName] = {
    "compute": "computation",
    "overhead": "overhead",
    "comm": "communication",
    "fixed": "fixed",
}
_SMALLEST = 1e-3


class TermShare(NamedTuple):
    """The share, within (0, 1], of a forecast duration that one term of the laws accounts for.

    ``computation`` is divided among the workers, ``overhead`` comes with each step or with the
    data, ``communication`` synchronises workers, ``fixed`` depends on none of these.
    """

    term: TermName
    share: float


def explain_rows(shares: Mapping[Term, FloatArray]) -> list[tuple[TermShare, ...]]:
    """Return the shares of each row, the largest first, without those next to nothing.

    Examples
    --------
    >>> explain_rows({"compute": np.array([0.25]), "comm": np.array([0.75])})
    [(TermShare(term='communication', share=0.75), TermShare(term='computation', share=0.25))]
    """
    names = [TERM_NAMES[term] for term in shares]
    rows = np.stack(list(shares.values()), axis=1).tolist()
    return [_explain(names, row) for row in rows]


def _explain(names: list[TermName], row: list[float]) -> tuple[TermShare, ...]:
    told = [(name, share) for name, share in zip(names, row, strict=True) if share >= _SMALLEST]
    total = sum(share for _, share in told)
    ordered = sorted(told, key=lambda pair: -pair[1])
    return tuple(TermShare(name, share / total) for name, share in ordered)
