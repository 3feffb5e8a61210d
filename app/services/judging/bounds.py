"""The longest a run should take, given runs of the same work on more workers.

The work of q workers can be done by p of them in ceil(q / p) rounds: a run on 4 workers takes at
most twice as long as on 8, whatever the workload's scaling law (Brent's theorem). Caches, of which
fewer workers have less, break this rule; hence an allowance for each halving of the workers.

Reference: Brent (1974), The parallel evaluation of general arithmetic expressions, Journal of the
ACM 21(2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log, log2
from typing import Final

from app.decisions.repetitions import Cell, Repetitions
from app.domain.configurations import Scenario
from app.domain.runs import Run
from app.services.judging.runs import JudgedRuns

ALLOWANCE: Final = 1.15
"""Factor by which halving the workers may more than double the duration; an assumption."""


@dataclass(frozen=True, slots=True)
class MeasuredConfiguration:
    """A measured configuration: its workers, its forecast and its repetitions.

    `log_median` is the forecast median of a new run, in log seconds.
    """

    workers: int
    nodes: int | None
    log_median: float
    cell: Cell


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound: the 95% quantile in log seconds, and the probability of a longer run.

    `exceedance` is the probability that a run takes the observed time or longer if it is only just
    as slow as allowed.
    """

    log_upper: float
    exceedance: float


MeasuredByWork = Mapping[str, Sequence[MeasuredConfiguration]]


def work_of(scenario: Scenario) -> str:
    """Return a key of the work that is the same for all numbers of workers."""
    any_workers = replace(scenario.configuration, workers=1, nodes=None)
    return replace(scenario, configuration=any_workers).digest()


def measured_by_work(
    judged_runs: Sequence[Run], cells: Sequence[Cell], judged: JudgedRuns
) -> dict[str, list[MeasuredConfiguration]]:
    """Return the measured configurations of each work, each one once."""
    by_work: dict[str, dict[int, MeasuredConfiguration]] = {}
    medians = judged.forecast.log_median.tolist()
    for run, cell, log_median in zip(judged_runs, cells, medians, strict=True):
        configuration = run.scenario.configuration
        by_work.setdefault(work_of(run.scenario), {})[cell.group] = MeasuredConfiguration(
            configuration.workers, configuration.nodes, log_median, cell
        )
    return {work: list(by_group.values()) for work, by_group in by_work.items()}


def bound_of(
    run: Run, by_work: MeasuredByWork, repetitions: Repetitions, log_seconds: float, upper: float
) -> Bound | None:
    """Return the lowest bound for a run, None where no run on more workers gives one.

    Parameters
    ----------
    run
        The run to be judged.
    by_work
        The measured configurations by work.
    repetitions
        Statistics of their repetitions.
    log_seconds
        Log duration of the run, less the acknowledged level.
    upper
        The probability of the upper bound, in (0, 1).
    """
    configuration = run.scenario.configuration
    bounds = []
    for measured in by_work.get(work_of(run.scenario), ()):
        if measured.workers <= configuration.workers or _is_denser(measured, configuration.nodes):
            continue
        rounds = ceil(measured.workers / configuration.workers)
        allowed = log(rounds) + log(ALLOWANCE) * log2(measured.workers / configuration.workers)
        log_bound = measured.log_median + allowed
        expected = repetitions.expect(measured.cell)
        exceedance = expected.probability_above(log_seconds - log_bound)
        bounds.append(Bound(log_bound + expected.quantile(upper), exceedance))
    return min(bounds, key=lambda bound: bound.log_upper, default=None)


def _is_denser(measured: MeasuredConfiguration, nodes: int | None) -> bool:
    """Whether the measured workers were on fewer nodes, where they communicate faster."""
    return nodes is not None and nodes > (measured.nodes or inf)
