"""What was measured since the fit of a regressor: runs that it has not seen yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.identifiers import WorkloadId
from app.domain.runs import RunColumns
from app.services.profiling_plans.candidates import distinct
from app.services.profiling_plans.grounds import scenarios_of
from app.services.served_regressors import ServedRegressor
from app.storage.stores import Stores

_MAX_RUNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class UnfittedRuns:
    """Runs that no regressor was fitted on: those with a duration, and those out of memory."""

    usable: RunColumns
    out_of_memory: RunColumns


def unfitted_runs(
    stores: Stores, workload_id: WorkloadId, served: ServedRegressor | None
) -> UnfittedRuns:
    """Return the newest runs since a regressor's fit read its runs, of all if there is none.

    Those out of memory are searched among as many.
    """
    since = None if served is None else served.seen_until
    usable = stores.runs.newest_usable(workload_id, since, limit=_MAX_RUNS)
    out_of_memory = stores.runs.out_of_memory(workload_id, since, among=_MAX_RUNS)
    return UnfittedRuns(usable, out_of_memory)


def resolved_scenarios(
    runs: RunColumns, resolve: Callable[[Scenario], Scenario]
) -> Iterator[Scenario]:
    """Yield what runs measured, in a regressor's terms; what has no name in them is left out."""
    for scenario in distinct(scenarios_of(runs)):
        try:
            yield resolve(scenario)
        except DomainError:
            # For example a parameter that no run had when the regressor was fitted.
            continue
