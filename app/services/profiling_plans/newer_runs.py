"""What was measured since the fit of a regressor: runs that it has not seen yet."""

from collections.abc import Callable
from typing import Final

from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.runs import RunColumns
from app.services.profiling_plans.candidates import Identity, distinct, identity_of
from app.services.profiling_plans.grounds import scenarios_of
from app.services.serving import ServedRegressor
from app.storage.stores import Stores

_MAX_RUNS: Final = 10_000


def runs_since_fit(stores: Stores, served: ServedRegressor) -> RunColumns:
    """Return the newest usable runs that were stored since a regressor's fit read its runs."""
    seen_until = stores.fits.seen_until(served.workload_id, served.version)
    since = seen_until or served.fitted_at
    return stores.runs.newest_usable(served.workload_id, since, limit=_MAX_RUNS)


def identities_of(runs: RunColumns, resolve: Callable[[Scenario], Scenario]) -> frozenset[Identity]:
    """Return what runs measured, in a regressor's terms; what has no name in them is left out."""
    identities = set()
    for scenario in distinct(scenarios_of(runs)):
        try:
            identities.add(identity_of(resolve(scenario)))
        except DomainError:
            # For example a parameter that no run had when the regressor was fitted.
            continue
    return frozenset(identities)
