"""Ernest's experiment design: the reference against which the greedy design is measured."""

import numpy as np

from models.tables import FloatArray

_STEPS, _RIDGE = 200, 1e-6
"""Steps of the conditional gradient method, and a ridge that keeps the information invertible."""


def ernest_features(workers: FloatArray, size: FloatArray) -> FloatArray:
    """Return ``[1, size / workers, log workers, workers]``, shape (n, 4).

    Parameters
    ----------
    workers, size
        Number of machines and size of the data of each configuration, shape (n,), positive.

    References
    ----------
    Venkataraman, Yang, Franklin, Recht, Stoica (2016), Ernest: efficient performance prediction for
    large-scale advanced analytics, NSDI, section 3.

    Examples
    --------
    >>> ernest_features(np.array([2.0]), np.array([8.0])).round(2).tolist()
    [[1.0, 4.0, 0.69, 2.0]]
    """
    return np.stack([np.ones(len(workers)), size / workers, np.log(workers), workers], axis=1)


def ernest_design(features: FloatArray, costs: FloatArray, budget: float) -> FloatArray:
    """Return the share in [0, 1] of each experiment in an A-optimal design within a budget.

    ``minimise tr((sum_i l_i a_i a_i')^-1)`` subject to ``0 <= l_i <= 1`` and ``c . l <= B``, the
    relaxation of choosing experiments. Solved by the conditional gradient method, whose linear
    problem is a fractional knapsack, filled by decreasing gain per cost.

    Parameters
    ----------
    features
        Terms of the model, shape (n, p); each is scaled to a mean square of 1.
    costs
        Cost of each experiment, shape (n,), positive.
    budget
        Most that all may cost together, positive.

    References
    ----------
    Venkataraman et al. (2016), NSDI, section 3.3. Boyd and Vandenberghe (2004), Convex
    optimization, section 7.5. Frank and Wolfe (1956), Naval Research Logistics Quarterly 3.

    Examples
    --------
    >>> design = ernest_design(np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.1]]), np.ones(3), 2.0)
    >>> design.round(1).tolist()
    [1.0, 1.0, 0.0]
    """
    scale = np.sqrt((features**2).mean(axis=0))
    a = features / np.where(scale > 0, scale, 1.0)
    share: FloatArray = np.full(len(costs), min(1.0, budget / float(costs.sum())))
    for step in range(_STEPS):
        information = (a * share[:, None]).T @ a + _RIDGE * np.eye(a.shape[1])
        gains = ((a @ np.linalg.inv(information)) ** 2).sum(axis=1)
        vertex = _fill(gains / costs, costs, budget)
        share = share + 2 / (step + 3) * (vertex - share)
    return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)


def _fill(worth: FloatArray, costs: FloatArray, budget: float) -> FloatArray:
    """Return the fractional knapsack: whole items by decreasing worth, then a part of the next."""
    order = np.argsort(-worth, kind="stable")
    before = np.cumsum(costs[order]) - costs[order]
    share = np.empty(len(costs))
    share[order] = np.clip((budget - before) / costs[order], 0.0, 1.0)
    return share
