"""The two optimisers that fits use; SciPy is imported only when one is called."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from models.tables import FloatArray

_TOLERANCE: Final = 1e7 * float(np.finfo(np.float64).eps)
"""SciPy's own."""


def _minimize(*arguments: object, **options: object) -> Any:
    from scipy.optimize import minimize  # noqa: PLC0415 - fits only, never forecasts

    function: Any = minimize
    return function(*arguments, **options)


def minimise_in_box(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    bounds: Sequence[tuple[float, float]],
    max_iterations: int,
    *,
    tolerance: float = _TOLERANCE,
) -> FloatArray:
    """Return a local minimum within bounds of a function with gradient, by L-BFGS-B.

    It ends where an iteration lowers the objective by less than `tolerance`, relative to its value
    or 1.

    References
    ----------
    Byrd, Lu, Nocedal, Zhu (1995), SIAM J. Sci. Comput. 16(5), 1190-1208.

    Examples
    --------
    >>> optimum = minimise_in_box(lambda x: (float(x @ x), 2 * x), np.ones(1), [(0.5, 2.0)], 20)
    >>> optimum.tolist()
    [0.5]
    """
    options = {"maxiter": max_iterations, "ftol": tolerance}
    found = _minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)


def minimise_on_simplex(
    loss: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    start: FloatArray,
) -> FloatArray:
    """Return non-negative weights with sum 1 at a local minimum of a loss, by SLSQP.

    References
    ----------
    Kraft (1988), A software package for sequential quadratic programming, DFVLR-FB 88-28.

    Examples
    --------
    >>> goal = np.array([0.2, 0.8])
    >>> optimum = minimise_on_simplex(
    ...     lambda w: float(((w - goal) ** 2).sum()), lambda w: 2 * (w - goal), np.array([0.5, 0.5])
    ... )
    >>> optimum.round(3).tolist()
    [0.2, 0.8]
    """
    constraint = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    result = _minimize(
        loss,
        start,
        jac=gradient,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints=constraint,
    )
    weights = np.clip(np.nan_to_num(np.asarray(result.x, dtype=np.float64)), 0.0, None)
    total = float(weights.sum())
    return weights / total if total > 0 else start
