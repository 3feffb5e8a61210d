"""Requests the fits that become due while nobody uploads."""

import logging
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final

from app.domain.fits import AgingFit
from app.domain.identifiers import ProjectId, Slug
from app.domain.instants import elapsed
from app.services.context import ServiceContext
from app.services.refitting.refits import request_refits

_logger = logging.getLogger(__name__)
_AGAIN_AFTER: Final = timedelta(minutes=1)


class OverdueRefits:
    """Requests fits of workloads whose runs have waited for as long as their policy allows.

    Uploads request fits themselves; this covers runs after which no upload came.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_most
        No fit is requested while this many are queued: others would wait behind them.
    """

    def __init__(self, context: ServiceContext, *, at_most: int) -> None:
        self._context = context
        self._at_most = at_most
        self._overdue: list[AgingFit] = []
        self._looked_at: datetime | None = None

    def look(self) -> int:
        """Queue fits where there is room and some are overdue; return how many.

        Workloads are examined once a minute, however often this is called.
        """
        now = self._context.now()
        is_due = self._looked_at is None or elapsed(self._looked_at, now) >= _AGAIN_AFTER
        if not self._overdue and is_due:
            self._overdue = self._find(now)
            self._looked_at = now
        if not self._overdue:
            return 0
        with self._context.database.reading() as stores:
            room = max(self._at_most - stores.fits.queue_length(), 0)
        batch, self._overdue = self._overdue[:room], self._overdue[room:]
        by_project: defaultdict[ProjectId, list[Slug]] = defaultdict(list)
        for fit in batch:
            by_project[fit.project_id].append(fit.workload)
        count = sum(self._request(owner, slugs, now) for owner, slugs in by_project.items())
        if count:
            _logger.info("overdue refits requested", extra={"fits": count})
        return count

    def _find(self, now: datetime) -> list[AgingFit]:
        with self._context.database.reading() as stores:
            aging = stores.fits.aging_fits()
        overdue = [fit for fit in aging if fit.policy.is_overdue(fit.began_at, now)]
        return sorted(overdue, key=lambda fit: fit.began_at)

    def _request(self, project_id: ProjectId, slugs: list[Slug], now: datetime) -> int:
        with self._context.database.transaction() as stores:
            workloads = stores.workloads.find_many(project_id, slugs).values()
            held = stores.workloads.hold(workload.workload_id for workload in workloads)
            existing = [workload for workload in workloads if workload.workload_id in held]
            return request_refits(stores, project_id, existing, now, self._context.settings)
