"""Asks for the fits that a workload's refit policy wants after an upload."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from app.domain.fits import Fit, FitRequest
from app.domain.identifiers import WorkloadId
from app.domain.workloads import RefitMode, RefitPolicy, Workload
from app.settings import Settings
from app.storage.stores import Stores

_INSTANT: Final = timedelta(microseconds=1)


def request_refits(
    stores: Stores, workloads: Iterable[Workload], now: datetime, settings: Settings
) -> None:
    """Queue a fit, in the transaction of the upload, for each workload that is due for one."""
    automatic = [
        workload
        for workload in workloads
        if workload.declaration.refit_policy.mode is RefitMode.AUTO
    ]
    last_fits = stores.fits.latest(workload.workload_id for workload in automatic)
    for workload in automatic:
        key, policy = workload.workload_id, workload.declaration.refit_policy
        if _is_due(stores, key, policy, last_fits.get(key), now):
            stores.fits.request(key, FitRequest(time_budget_s=settings.fit_time_budget_s), now)


def _is_due(
    stores: Stores, key: WorkloadId, policy: RefitPolicy, last: Fit | None, now: datetime
) -> bool:
    seen_until = None if last is None else last.started_at or last.requested_at
    # The runs of the upload that asked for the last fit carry its very instant.
    since = None if seen_until is None else seen_until + _INSTANT
    new_runs = stores.runs.count_usable(key, since)
    if new_runs >= policy.min_new_runs:
        return True
    if policy.max_age_s is None or seen_until is None:
        return False
    return new_runs > 0 and (now - seen_until).total_seconds() >= policy.max_age_s
