"""Asks for the fits that a refit policy wants after an upload, or an operator for all workloads."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from app.domain.errors import ProjectLimitError
from app.domain.fits import Fit, FitRequest
from app.domain.identifiers import KeyId, ProjectId, WorkloadId
from app.domain.workloads import RefitMode, RefitPolicy, Workload
from app.services.context import ServiceContext
from app.services.fit_requests import queue_fit, queue_fits
from app.services.projects import project_named
from app.services.quotas import charge_fits
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
) -> None:
    """Queue a fit, in the transaction of the upload, for each workload that is due for one.

    `key_id` tells by whose key the runs came, None where none is needed.

    Beyond the limits of the project none is queued: the runs are stored all the same, and the
    next upload asks again.
    """
    automatic = [
        workload
        for workload in workloads
        if workload.declaration.refit_policy.mode is RefitMode.AUTO
    ]
    if not automatic:
        return
    last_fits = stores.fits.latest(workload.workload_id for workload in automatic)
    request, due = FitRequest(time_budget_s=settings.fit_time_budget_s), []
    for workload in automatic:
        key, policy = workload.workload_id, workload.declaration.refit_policy
        if _is_due(stores, key, policy, last_fits.get(key), now):
            due.append(key)
    for key in due[: _room(stores, project_id, now)] if due else ():
        queue_fit(stores, project_id, key, request, now, key_id=key_id, reason="refit policy")


def _room(stores: Stores, project_id: ProjectId, now: datetime) -> int | None:
    try:
        return charge_fits(stores, project_id, now)
    except ProjectLimitError as error:
        _logger.warning("refit not queued", extra={"project": project_id, "reason": str(error)})
        return 0


def _is_due(
    stores: Stores, key: WorkloadId, policy: RefitPolicy, last: Fit | None, now: datetime
) -> bool:
    seen_until = None if last is None else last.started_at or last.requested_at
    # The runs of the upload that asked for the last fit carry its very instant.
    since = None if seen_until is None else seen_until + _INSTANT
    new_runs = stores.runs.count_usable(key, since, at_most=policy.min_new_runs)
    if new_runs >= policy.min_new_runs:
        return True
    if policy.max_age_s is None or seen_until is None:
        return False
    return new_runs > 0 and (now - seen_until).total_seconds() >= policy.max_age_s


class RefitService:
    """Renews the regressors of many workloads.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_once
        Fits asked for in one transaction: on SQLite other writers wait for it.
    """

    def __init__(self, context: ServiceContext, *, at_once: int = _AT_ONCE) -> None:
        self._context = context
        self._at_once = at_once

    def request_all(
        self, older_than: timedelta, *, project: str | None = None, at_most: int | None = None
    ) -> int:
        """Queue a fit for every workload without a regressor of that age or younger.

        Workloads without a usable run or with an active fit are left alone, so that asking twice
        does nothing twice. Returns how many fits were queued, `at_most` so many: fits are computed
        in the order in which they are asked for, and others would wait behind all of these.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        project_id = None if project is None else self._project(project)
        before, last, count = self._context.now() - older_than, WorkloadId(0), 0
        while found := self._request_some(before, project_id, last, _room_left(at_most, count)):
            last, queued = found
            count += queued
        _logger.info("refits requested", extra={"fits": count})
        return count

    def _project(self, name: str) -> ProjectId:
        with self._context.database.reading() as stores:
            return project_named(stores, name).project_id

    def _request_some(
        self, before: datetime, project_id: ProjectId | None, after: WorkloadId, room: int | None
    ) -> tuple[WorkloadId, int] | None:
        """Return the last workload of a batch and the fits queued for it; None after the last."""
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
                reason="trainfare refit",
            )
        return (keys[-1][0], queued) if keys else None


def _room_left(at_most: int | None, count: int) -> int | None:
    return None if at_most is None else at_most - count
