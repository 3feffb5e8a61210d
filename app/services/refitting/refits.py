"""Requests the fits that refit policies call for, or that an operator wants for all workloads."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from app.domain.access_errors import ProjectLimitError
from app.domain.fits import Fit, FitReason, FitRequest
from app.domain.identifiers import KeyId, ProjectId, WorkloadId
from app.domain.workloads import RefitMode, Workload
from app.services.context import ServiceContext
from app.services.projects import project_id_of
from app.services.quotas import charge_fits
from app.services.refitting.requests import queue_fit, queue_fits
from app.settings import Settings
from app.storage.stores import Stores

_logger = logging.getLogger(__name__)
_AT_ONCE: Final = 200
_INSTANT: Final = timedelta(microseconds=1)


def request_refits(
    stores: Stores,
    project_id: ProjectId,
    workloads: Iterable[Workload],
    now: datetime,
    settings: Settings,
    key_id: KeyId | None = None,
) -> int:
    """Queue a fit for each workload for which its policy makes one due; return how many.

    Called in the transaction of an upload, a promotion or a change of the policy, after a fit has
    ended (nothing else would consider the runs that came meanwhile), and when runs may have waited
    too long. `key_id` is the key that brought the runs or the policy, None where none is needed or
    there was none.

    Nobody removes the workloads until the transaction ends: it has created or locked them.

    Nothing is queued beyond the project's limits: the runs are stored all the same, and the next
    call considers them again.
    """
    automatic = [
        workload
        for workload in workloads
        if workload.declaration.refit_policy.mode is RefitMode.AUTO
    ]
    if not automatic:
        return 0
    # Everyone who queues several fits does so in the same order, which avoids deadlocks.
    automatic.sort(key=lambda workload: workload.workload_id)
    keys = [workload.workload_id for workload in automatic]
    # Locked: a fit that ends before this transaction would not see the runs stored in it.
    last = stores.fits.latest(keys, lock=True)
    published = stores.fits.latest_published(keys)
    request = FitRequest(time_budget_s=settings.fit_time_budget_s)
    due = [
        key
        for key, workload in zip(keys, automatic, strict=True)
        if _is_due(stores, workload, last.get(key), published.get(key), now)
    ]
    queued = [
        queue_fit(stores, project_id, key, request, now, key_id=key_id, reason=FitReason.POLICY)[1]
        for key in (due[: _room(stores, project_id, now)] if due else ())
    ]
    return sum(queued)


def _room(stores: Stores, project_id: ProjectId, now: datetime) -> int | None:
    try:
        return charge_fits(stores, project_id, now)
    except ProjectLimitError as error:
        _logger.warning("refit not queued", extra={"project": project_id, "reason": str(error)})
        return 0


def _is_due(
    stores: Stores, workload: Workload, last: Fit | None, published: Fit | None, now: datetime
) -> bool:
    """Return whether enough runs, or one for too long, wait that no published fit has seen."""
    key, policy = workload.workload_id, workload.declaration.refit_policy
    if last is not None and not last.state.is_final:
        return False
    was_unsuccessful = last is not None and (published is None or last.fit_id != published.fit_id)
    if was_unsuccessful and not stores.runs.count_new(key, _after(last), at_most=1):
        # The same runs would lead to the same result.
        return False
    waiting = stores.runs.count_new(key, _after(published), at_most=policy.min_new_runs)
    if waiting >= policy.min_new_runs:
        return True
    return waiting > 0 and published is not None and policy.is_overdue(_began_at(published), now)


def _began_at(fit: Fit) -> datetime:
    return fit.started_at or fit.requested_at


def _after(fit: Fit | None) -> datetime | None:
    # For a fit that did not record what it saw: the runs of the upload that requested it may carry
    # the very instant at which it began.
    return None if fit is None else (fit.seen_until or _began_at(fit)) + _INSTANT


class RefitService:
    """Renews the regressors of many workloads.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_once
        Fits requested in one transaction, for which other writers on SQLite wait.
    """

    def __init__(self, context: ServiceContext, *, at_once: int = _AT_ONCE) -> None:
        self._context = context
        self._at_once = at_once

    def request_all(
        self, older_than: timedelta, *, project: str | None = None, at_most: int | None = None
    ) -> int:
        """Queue a fit for every workload whose regressor is older than a given age or missing.

        Workloads without a usable run or with an active fit are left alone, so a repeated call has
        no further effect. Returns how many fits were queued, at most `at_most`: fits are computed
        in the order in which they are requested, and others would wait behind all of these.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        with self._context.database.reading() as stores:
            project_id = project_id_of(stores, project)
        before, last, count = self._context.now() - older_than, WorkloadId(0), 0
        while found := self._request_some(before, project_id, last, _room_left(at_most, count)):
            last, queued = found
            count += queued
        _logger.info("refits requested", extra={"fits": count})
        return count

    def _request_some(
        self, before: datetime, project_id: ProjectId | None, after: WorkloadId, room: int | None
    ) -> tuple[WorkloadId, int] | None:
        """Return the last workload of a batch and the number of new fits, None after the last."""
        now, settings = self._context.now(), self._context.settings
        with self._context.database.transaction() as stores:
            keys = stores.fits.stale_workloads(
                before,
                project_id=project_id,
                after=after,
                limit=self._at_once if room is None else min(self._at_once, room),
            )
            queued = queue_fits(
                stores,
                keys,
                now,
                time_budget_s=settings.fit_time_budget_s,
                reason=FitReason.OPERATOR,
            )
        return (keys[-1][0], queued) if keys else None


def _room_left(at_most: int | None, count: int) -> int | None:
    return None if at_most is None else at_most - count
