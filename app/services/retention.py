"""Removes what is old and no longer used, in batches."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from app.domain.errors import NotFoundError
from app.domain.identifiers import ForecastId, ProjectId, WorkloadId
from app.services.context import ServiceContext
from app.services.projects import project_id_of

_logger = logging.getLogger(__name__)
_FORECASTS_AT_ONCE: Final = 5_000
_REPORTS_AT_ONCE: Final = 1_000
_ARTIFACTS_AT_ONCE: Final = 50
"""Each has up to several megabytes, and SQLite reads what it frees."""


class RetentionService:
    """Removes old recorded forecasts, artefacts of regressor versions, and CI reports.

    A call that is interrupted keeps what it has removed so far, and a further call continues. The
    audit log of each project records the requests.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    forecasts_at_once, artifacts_at_once, reports_at_once
        How many are examined in one transaction, for which other writers on SQLite wait.
    """

    def __init__(
        self,
        context: ServiceContext,
        *,
        forecasts_at_once: int = _FORECASTS_AT_ONCE,
        artifacts_at_once: int = _ARTIFACTS_AT_ONCE,
        reports_at_once: int = _REPORTS_AT_ONCE,
    ) -> None:
        self._context = context
        self._forecasts_at_once = forecasts_at_once
        self._artifacts_at_once = artifacts_at_once
        self._reports_at_once = reports_at_once

    def prune_forecasts(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Remove recorded forecasts of that age that no run names; return how many.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        project_id = self._begin(before, project, "forecast.prune", "ledger")
        last, count = ForecastId(""), 0
        while found := self._prune_some(before, project_id, last):
            last, removed = found
            count += removed
        _logger.info("recorded forecasts removed", extra={"forecasts": count})
        return count

    def count_forecasts(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Return how many `prune_forecasts` would remove.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        project_id = self._find(project)
        with self._context.database.reading() as stores:
            return stores.forecasts.count_unnamed(before, project_id)

    def prune_regressors(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Remove artefacts of regressor versions of that age; return how many.

        A version's age counts from its fit, or from when it last answered. Kept are the artefacts
        that a process of any release answers with and the newest of each workload; of the others,
        the version's record remains.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        project_id = self._begin(before, project, "regressor.prune", "registry")
        workloads = self._workloads(before, project_id)
        count = sum(self._prune_artifacts(workload_id, before) for workload_id in workloads)
        _logger.info("artefacts of regressors removed", extra={"regressors": count})
        return count

    def count_regressors(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Return how many artefacts `prune_regressors` would remove.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        workloads = self._workloads(before, self._find(project))
        return sum(self._count_artifacts(workload_id, before) for workload_id in workloads)

    def prune_reports(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Remove CI reports of that age; return how many. Their runs and baselines stay.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        project_id = self._begin(before, project, "ci.prune", "reports")
        count = 0
        while removed := self._prune_some_reports(before, project_id):
            count += removed
        _logger.info("CI reports removed", extra={"reports": count})
        return count

    def count_reports(self, older_than: timedelta, *, project: str | None = None) -> int:
        """Return how many `prune_reports` would remove.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before = self._context.now() - older_than
        project_id = self._find(project)
        with self._context.database.reading() as stores:
            return stores.ci.count_old(before, project_id)

    def _prune_some_reports(self, before: datetime, project_id: ProjectId | None) -> int:
        with self._context.database.transaction() as stores:
            return stores.ci.remove_old(before, project_id, limit=self._reports_at_once)

    def _find(self, project: str | None) -> ProjectId | None:
        with self._context.database.reading() as stores:
            return project_id_of(stores, project)

    def _begin(
        self, before: datetime, project: str | None, action: str, subject: str
    ) -> ProjectId | None:
        detail = {"before": before.isoformat()}
        with self._context.database.transaction() as stores:
            # Otherwise the entry of one that is being removed would be left.
            affected = stores.access.hold_projects(project)
            if project is not None and not affected:
                raise NotFoundError("project", project)
            for each in affected:
                stores.access.record_audit(
                    each.project_id, None, self._context.now(), action, subject, detail
                )
            return None if project is None else affected[0].project_id

    def _prune_some(
        self, before: datetime, project_id: ProjectId | None, after: ForecastId
    ) -> tuple[ForecastId, int] | None:
        """Return the last forecast examined and how many were removed; None after the last."""
        with self._context.database.transaction() as stores:
            limit = self._forecasts_at_once
            return stores.forecasts.prune(before, project_id, after=after, limit=limit)

    def _workloads(self, before: datetime, project_id: ProjectId | None) -> Iterator[WorkloadId]:
        """Yield the workloads with old artefacts; no transaction stays open meanwhile."""
        last: WorkloadId | None = WorkloadId(0)
        while last is not None:
            with self._context.database.reading() as stores:
                last = stores.artifacts.next_workload(before, project_id, after=last)
            if last is not None:
                yield last

    def _prune_artifacts(self, workload_id: WorkloadId, before: datetime) -> int:
        last, count = 0, 0
        while found := self._prune_some_artifacts(workload_id, before, last):
            last, removed = found
            count += removed
        return count

    def _prune_some_artifacts(
        self, workload_id: WorkloadId, before: datetime, after: int
    ) -> tuple[int, int] | None:
        with self._context.database.transaction() as stores:
            limit = self._artifacts_at_once
            # Lock workloads before their versions, as in the removal of a workload.
            if not stores.workloads.hold([workload_id]):
                return None
            return stores.artifacts.remove(workload_id, before, after=after, limit=limit)

    def _count_artifacts(self, workload_id: WorkloadId, before: datetime) -> int:
        with self._context.database.reading() as stores:
            return stores.artifacts.count(workload_id, before)
