"""Allocations to try: small ones with all their choices, and large ones."""

import itertools
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from app.decisions.allocation import NOTHING, IntArray, Options, Solution
from app.decisions.durations import FloatArray

LIMIT_S: Final = 60.0
"""Seconds in which a small program is solved, on a busy machine too."""


def make_options(rng: np.random.Generator, n_jobs: int, n_kinds: int) -> Options:
    """Return two to four options a job, at most one for each kind and number of GPUs."""
    rows = []
    for job in range(n_jobs):
        choices = [(kind, gpus) for kind in range(n_kinds) for gpus in range(1, 6)]
        picked = rng.permutation(len(choices))[: rng.integers(2, 5)]
        rows += [(job, *choices[index], rng.uniform(1.0, 100.0)) for index in picked]
    jobs, kinds, gpus, values = (np.array(column) for column in zip(*rows, strict=True))
    return Options(jobs, kinds, gpus, values)


def every_choice(
    options: Options, n_jobs: int, capacity: IntArray, *, may_leave_out: bool
) -> list[IntArray]:
    """Return all allocations that fit, by trying them."""
    own = [
        [*np.flatnonzero(options.job == job).tolist(), *([NOTHING] if may_leave_out else [])]
        for job in range(n_jobs)
    ]
    fitting = []
    for combination in itertools.product(*own):
        choice = np.array(combination)
        placed = choice[choice != NOTHING]
        used = np.bincount(
            options.kind[placed], weights=options.gpus[placed], minlength=len(capacity)
        )
        if (used <= capacity).all():
            fitting.append(choice)
    return fitting


def assert_least_of_all(
    solve: Callable[..., Solution | None],
    measure: Callable[[Options, IntArray], float],
    n_kinds: int,
    seeds: range,
    *,
    rel: float,
) -> None:
    """Check that allocations of all jobs have the least measure, or that there is none."""
    for seed in seeds:
        options, n_jobs, capacity, _ = instance(seed, n_kinds)
        fitting = every_choice(options, n_jobs, capacity, may_leave_out=False)

        allocation = solve(options, n_jobs, capacity, time_limit_s=LIMIT_S)

        if not fitting:
            assert allocation is None
            continue
        assert allocation is not None
        assert allocation.is_exact
        best = min(measure(options, choice) for choice in fitting)
        assert measure(options, allocation.choice) == pytest.approx(best, rel=rel)


def assert_most_weight_first(
    solve: Callable[..., Solution | None],
    measure: Callable[[Options, IntArray], float],
    n_kinds: int,
    seeds: range,
    *,
    rel: float,
) -> None:
    """Check that allocations have the least measure of those that place the most weight."""
    for seed in seeds:
        options, n_jobs, capacity, weights = instance(seed, n_kinds)
        fitting = every_choice(options, n_jobs, capacity, may_leave_out=True)

        allocation = solve(options, n_jobs, capacity, weights, time_limit_s=LIMIT_S)

        expected = min((-weight_of(each, weights), measure(options, each)) for each in fitting)
        assert allocation is not None
        assert -weight_of(allocation.choice, weights) == expected[0]
        assert measure(options, allocation.choice) == pytest.approx(expected[1], rel=rel)


def total(options: Options, choice: IntArray) -> float:
    return float(options.value[choice[choice != NOTHING]].sum())


def largest(options: Options, choice: IntArray) -> float:
    placed = choice[choice != NOTHING]
    return float(options.value[placed].max()) if placed.size else 0.0


def weight_of(choice: IntArray, weights: FloatArray) -> float:
    return float(weights[choice != NOTHING].sum())


def instance(seed: int, n_kinds: int) -> tuple[Options, int, IntArray, FloatArray]:
    rng = np.random.default_rng(seed)
    n_jobs = int(rng.integers(1, 6))
    options = make_options(rng, n_jobs, n_kinds)
    capacity = rng.integers(0, 3 * n_jobs + 2, n_kinds)
    return options, n_jobs, capacity, rng.integers(1, 4, n_jobs).astype(np.float64)


def large(n_jobs: int, n_kinds: int) -> tuple[Options, IntArray]:
    rng = np.random.default_rng(7)
    counts = np.arange(1, 65)
    job, kind, gpus = (
        axis.ravel() for axis in np.meshgrid(np.arange(n_jobs), np.arange(n_kinds), counts)
    )
    work, loss = rng.lognormal(8.0, 1.5, n_jobs), rng.uniform(0.5, 0.95, n_jobs)
    speed = rng.uniform(0.5, 2.0, (n_jobs, n_kinds))
    value = work[job] / speed[job, kind] / gpus ** loss[job]
    return Options(job, kind, gpus, value), np.full(n_kinds, 512 // n_kinds)


def fits(options: Options, solution: Solution, capacity: IntArray) -> bool:
    placed = solution.choice[solution.choice != NOTHING]
    used = np.bincount(options.kind[placed], weights=options.gpus[placed], minlength=len(capacity))
    return bool((used <= capacity).all())
