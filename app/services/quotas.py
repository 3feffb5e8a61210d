"""Enforces projects' limits, in the transaction of whatever counts towards them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Final

from app.domain.access import Project
from app.domain.access_errors import ProjectLimitError
from app.domain.identifiers import ProjectId
from app.domain.quotas import Limit, Quota
from app.services.context import ServiceContext
from app.services.projects import require_project
from app.storage.stores import Stores

if TYPE_CHECKING:
    from app.services.uploads.storing import Registered

_DAY: Final = timedelta(days=1)
_QUEUE_RETRY_S: Final = 30


def charge_upload(stores: Stores, project_id: ProjectId, registered: "Registered") -> None:
    """Count the new runs and workloads of an upload, in its transaction.

    Raises
    ------
    ProjectLimitError
        If the project would exceed its limits.
    """
    runs = registered.created.total()
    _charge(stores, project_id, runs=runs, workloads=registered.new_workloads)


def charge_workload(stores: Stores, project_id: ProjectId) -> None:
    """Count a workload declared in this transaction.

    Raises
    ------
    ProjectLimitError
        If the project would exceed its limit.
    """
    _charge(stores, project_id, runs=0, workloads=1)


def _charge(stores: Stores, project_id: ProjectId, *, runs: int, workloads: int) -> None:
    if not runs and not workloads:
        return
    quota = stores.quotas.lock_for_upload(project_id)
    if quota is None:
        return
    if workloads and quota.workloads is not None:
        _check("workloads", quota.workloads, stores.quotas.count_workloads(project_id))
    if runs and quota.runs is not None:
        _check("stored runs", quota.runs, stores.quotas.add_runs(project_id, runs))


def _check(what: str, limit: int, count: int) -> None:
    if count > limit:
        raise ProjectLimitError(what, limit=limit, count=count)


def release_runs(stores: Stores, project_id: ProjectId, count: int) -> None:
    """Subtract runs removed in this transaction; a limit set meanwhile counts what is left."""
    if count:
        stores.quotas.lock_for_upload(project_id)
        stores.quotas.add_runs(project_id, -count)


def charge_fits(stores: Stores, project_id: ProjectId, now: datetime) -> int | None:
    """Return how many more fits are allowed, None for no limit; locked until the transaction ends.

    Raises
    ------
    ProjectLimitError
        If none is allowed.
    """
    quota = stores.quotas.lock_for_fit(project_id)
    if quota is None:
        return None
    rooms = []
    if quota.fits_per_day is not None:
        rooms.append(_room_of_day(stores, project_id, quota.fits_per_day, now))
    if quota.queued_fits is not None:
        queued = stores.quotas.count_queued(project_id)
        rooms.append(_room("waiting fits", quota.queued_fits, queued, _QUEUE_RETRY_S))
    # None if the limits were lifted before they could be locked.
    return min(rooms, default=None)


def _room_of_day(stores: Stores, project_id: ProjectId, limit: int, now: datetime) -> int:
    since = now - _DAY
    count = stores.quotas.count_fits(project_id, since)
    wait_s = _DAY.total_seconds()
    if 0 < limit <= count:
        # So many have to become a day old, several where the limit was lowered.
        last = stores.quotas.instant_of_fit(project_id, since, count - limit)
        wait_s = (last - since).total_seconds()
    return _room("fits in 24 hours", limit, count, max(1, ceil(wait_s)))


def _room(what: str, limit: int, count: int, retry_after_s: int) -> int:
    if count >= limit:
        raise ProjectLimitError(what, limit=limit, count=count + 1, retry_after_s=retry_after_s)
    return limit - count


class ProjectService:
    """Use cases of projects' limits."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def list_all(self) -> list[tuple[Project, Quota]]:
        """Return all projects with their limits, by name."""
        with self._context.database.reading() as stores:
            return stores.quotas.list_all()

    def limit(self, name: str, changes: Mapping[Limit, int | None]) -> Quota:
        """Change limits of a project and return all of them; None lifts one. Audited.

        What already exceeds a new limit stays; only additions are refused.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        with self._context.database.transaction() as stores:
            before = stores.quotas.lock(require_project(stores, name).project_id)
            # Looked up again: it may have been removed while this waited for the lock.
            project = require_project(stores, name)
            changed_limits = {limit.value: value for limit, value in changes.items()}
            quota = replace(before, **changed_limits)
            if changed_limits:
                stores.quotas.put(project.project_id, quota)
                stores.access.record_audit(
                    project.project_id,
                    None,
                    self._context.now(),
                    "project.limit",
                    project.project_id,
                    changed_limits,
                )
        return quota
