"""Requests new fits where an earlier release published a format that this one cannot read."""

import logging
from datetime import datetime, timedelta
from typing import Final

from app.domain.fits import FitReason
from app.domain.instants import elapsed
from app.services.context import ServiceContext
from app.services.refitting.requests import queue_fits
from models import FORMAT_VERSION

_logger = logging.getLogger(__name__)
_AGAIN_AFTER: Final = timedelta(minutes=1)


class FormatRenewal:
    """Requests fits, a few at a time, to replace artefacts in an earlier release's format.

    Fitters of two releases side by side do not undo each other's work: artefacts in a later format
    are left alone. A fit that fails or is cancelled is not requested again until the process
    restarts.

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
        self._began_at = context.now()
        self._done_at: datetime | None = None

    def look(self) -> int:
        """Queue fits where there is room and something to renew; return how many.

        Once there is nothing to renew, calls within the next minute do nothing.
        """
        now = self._context.now()
        if self._done_at is not None and elapsed(self._done_at, now) < _AGAIN_AFTER:
            return 0
        with self._context.database.reading() as stores:
            room = self._at_most - stores.fits.queue_length()
            if room <= 0:
                return 0
            workloads = stores.fits.outdated_workloads(
                FORMAT_VERSION, tried_since=self._began_at, limit=room
            )
        if not workloads:
            self._done_at = now
            return 0
        with self._context.database.transaction() as stores:
            count = queue_fits(
                stores,
                workloads,
                now,
                time_budget_s=self._context.settings.fit_time_budget_s,
                reason=FitReason.FORMAT,
            )
        _logger.info("regressors of an earlier release are fitted again", extra={"fits": count})
        return count
