"""Each objective on random forecasts against brute force: values, deadlines, weights, restarts."""

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from app.decisions.allocation import NOTHING, Options
from app.decisions.allocation_program import allocate
from app.decisions.durations import DurationBeliefs
from app.decisions.makespan import allocate_makespan
from app.domain.allocations import AllocationRequest, ElasticJob, Goal, Placed
from app.domain.configurations import Scenario
from app.domain.identifiers import Slug
from app.services.scheduling.beliefs import Beliefs
from app.services.scheduling.options import (
    Forecasts,
    forecasts_of,
    goal_values,
    options_of,
)
from models import NORMAL_KNOTS
from tests.support.prices import make_offer

pytestmark = pytest.mark.lengthy

NOW = datetime(2026, 11, 1, tzinfo=UTC)
_CAPACITIES = ({"T4": 4}, {"T4": 3, "L4": 2})


def make_job(rng: np.random.Generator, ref: str) -> ElasticJob:
    counts = tuple(sorted({int(count) for count in rng.integers(1, 5, 2)}))
    current = Placed("T4", int(rng.integers(1, 4))) if rng.random() < 0.4 else None
    due = NOW + timedelta(seconds=float(rng.uniform(500.0, 9000.0)))
    return ElasticJob(
        ref,
        Slug("w"),
        worker_counts=counts,
        weight=float(rng.uniform(0.5, 3.0)),
        deadline=due if rng.random() < 0.3 else None,
        progress=float(rng.choice([0.0, 0.5])),
        current=current,
        restart_s=float(rng.uniform(0.0, 600.0)),
    )


def believe(rng: np.random.Generator, request: AllocationRequest) -> Forecasts:
    """Return random forecasts of all options, each with a price."""
    options = options_of(request)
    n = len(options)
    medians = rng.normal(7.5, 0.8, n)
    widths = rng.uniform(0.05, 0.5, (n, 1)) * NORMAL_KNOTS[1:]
    beliefs = Beliefs(
        DurationBeliefs.from_widths(medians, widths, widths, NORMAL_KNOTS),
        list(range(n)),
        [Scenario()] * n,
        [make_offer(f"{price:.2f}") for price in rng.uniform(0.5, 9.0, n)],
        {},
    )
    return forecasts_of(request, options, beliefs, NOW)


def worth(request: AllocationRequest, forecasts: Forecasts, rows: list[int]) -> float:
    """Return what an allocation is worth, small is good, said in the words of the contract."""
    jobs = [request.jobs[forecasts.options[row].job] for row in rows]
    seconds = [float(forecasts.left.mean()[row] + forecasts.restart_s[row]) for row in rows]
    match request.goal:
        case Goal.THROUGHPUT:
            return -sum(job.weight * 3600 / s for job, s in zip(jobs, seconds, strict=True))
        case Goal.MEAN_COMPLETION:
            return sum(job.weight * s for job, s in zip(jobs, seconds, strict=True))
        case Goal.MAKESPAN:
            upper = forecasts.left.quantile(request.confidence) + forecasts.restart_s
            return max(float(upper[row]) for row in rows)
        case Goal.COST:
            return sum(float(forecasts.cost[row]) for row in rows)


def best_by_trying(request: AllocationRequest, forecasts: Forecasts) -> float | None:
    punctual = forecasts.on_time >= request.confidence
    own: list[list[int]] = [[] for _ in request.jobs]
    for row, option in enumerate(forecasts.options):
        if punctual[row]:
            own[option.job].append(row)
    capacity = list(request.capacity.values())
    fitting = []
    for rows in itertools.product(*own):
        used = [0] * len(capacity)
        for row in rows:
            used[forecasts.options[row].kind] += forecasts.options[row].placed.workers
        if all(u <= c for u, c in zip(used, capacity, strict=True)):
            fitting.append(list(rows))
    return min((worth(request, forecasts, rows) for rows in fitting), default=None)


@pytest.mark.parametrize("goal", list(Goal))
@pytest.mark.parametrize("capacity", _CAPACITIES, ids=["one-kind", "two-kinds"])
def test_allocation_equals_brute_force(goal: Goal, capacity: dict[str, int]) -> None:
    solved = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        jobs = tuple(make_job(rng, f"j{n}") for n in range(rng.integers(1, 4)))
        request = AllocationRequest(capacity, jobs, goal)
        forecasts = believe(rng, request)
        rows = np.flatnonzero(forecasts.on_time >= request.confidence)
        options = Options(
            forecasts.of("job")[rows],
            forecasts.of("kind")[rows],
            forecasts.workers()[rows],
            goal_values(request, forecasts)[rows],
        )
        solver = allocate_makespan if goal is Goal.MAKESPAN else allocate

        allocation = solver(options, len(jobs), np.array(list(capacity.values())), time_limit_s=30)

        expected = best_by_trying(request, forecasts)
        assert (allocation is None) == (expected is None)
        if allocation is not None and expected is not None:
            assert allocation.is_exact
            assert (allocation.choice != NOTHING).all()
            chosen = rows[allocation.choice].tolist()
            assert worth(request, forecasts, chosen) == pytest.approx(expected, rel=1e-9)
            solved += 1
    assert solved > 100
