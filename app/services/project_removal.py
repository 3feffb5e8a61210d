"""Removes a project with everything that belongs to it, in short transactions."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.quotas import Quota
from app.services.context import ServiceContext
from app.services.projects import require_project
from app.services.workload_removal import AT_ONCE, remove_some
from app.storage.removal import OF_PROJECTS
from app.storage.stores import Stores

_logger = logging.getLogger(__name__)
_CLOSED: Final = Quota(runs=0, workloads=0, fits_per_day=0, queued_fits=0)


class ProjectRemovalService:
    """Removes a project with its workloads, prices, CI reports, keys, limits and audit log.

    The service may be running: each transaction removes a bounded number of rows. A removal that is
    interrupted keeps what it has removed so far, and a further call continues.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_once
        How many rows are removed in one transaction, for which other writers on SQLite wait.
    """

    def __init__(self, context: ServiceContext, *, at_once: int = AT_ONCE) -> None:
        self._context = context
        self._at_once = at_once

    def count(self, name: str) -> dict[str, int]:
        """Return how much of each kind `remove` would remove.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        with self._context.database.reading() as stores:
            return stores.removal.count(require_project(stores, name).project_id)

    def remove(self, name: str) -> None:
        """Remove a project with everything that belongs to it.

        The default project, which stands for callers without a key, remains: empty, and with no
        limit but that of requests per minute.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        project_id = self._close(name)
        for workload_id, slug in self._workloads(project_id):
            self._remove_workload(project_id, workload_id, slug)
        self._remove_own(project_id)
        with self._context.database.transaction() as stores:
            if project_id == DEFAULT_PROJECT:
                stores.removal.remove_keys(project_id)
                self._limit(stores, project_id, Quota())
            else:
                stores.removal.remove_project(project_id)
        _logger.info("project removed", extra={"project": project_id})

    def _close(self, name: str) -> ProjectId:
        """Revoke all keys and let nothing be stored that would have to be removed again."""
        now = self._context.now()
        with self._context.database.transaction() as stores:
            project = require_project(stores, name)
            for key in stores.access.list_keys():
                if key.project_id == project.project_id:
                    stores.access.revoke_key(key.key_id, now)
            self._limit(stores, project.project_id, _CLOSED)
            stores.access.record_audit(
                project.project_id, None, now, "project.remove", project.project_id
            )
        return project.project_id

    def _limit(self, stores: Stores, project_id: ProjectId, quota: Quota) -> None:
        before = stores.quotas.lock(project_id)
        per_minute = before.requests_per_minute
        stores.quotas.put(project_id, replace(quota, requests_per_minute=per_minute))

    def _workloads(self, project_id: ProjectId) -> Iterator[tuple[WorkloadId, Slug]]:
        """Yield the workloads of a project; no transaction stays open meanwhile."""
        last = WorkloadId(0)
        while True:
            with self._context.database.reading() as stores:
                found = stores.removal.next_workload(project_id, last)
            if found is None:
                return
            last = found[0]
            yield found

    def _remove_workload(self, project_id: ProjectId, workload_id: WorkloadId, slug: Slug) -> None:
        removed = self._at_once
        while removed:
            with self._context.database.transaction() as stores:
                removed = remove_some(stores, project_id, workload_id, slug, self._at_once)
                if not removed:
                    stores.workloads.delete(workload_id)

    def _remove_own(self, project_id: ProjectId) -> None:
        """Remove what there is by now; what callers still add goes with the project."""
        with self._context.database.reading() as stores:
            counts = stores.removal.count(project_id)
        for kind in OF_PROJECTS:
            left = counts[kind]
            while left > 0:
                with self._context.database.transaction() as stores:
                    removed = stores.removal.remove_own(kind, project_id, self._at_once)
                left -= removed or left
