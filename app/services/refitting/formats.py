"""Has fitted again what an earlier release published in a format that this one does not read."""

import logging
from datetime import timedelta
from typing import Final

from app.domain.fits import FitReason
from app.services.context import ServiceContext
from app.services.refitting.requests import queue_fits
from models import FORMAT_VERSION

_logger = logging.getLogger(__name__)
_AGAIN_AFTER: Final = timedelta(minutes=1)


class FormatRenewal:
    """Has fitted again, a few at a time, what an earlier release published in another format.

    Fitters of two releases beside each other do not undo each other's work: an artefact of a later
    format is left alone. A fit that fails or is cancelled is not asked for again until the process
    starts anew.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_most
        None is asked for while so many fits or more are queued: others would wait behind them.
    """

    def __init__(self, context: ServiceContext, *, at_most: int) -> None:
        self._context = context
        self._at_most = at_most
        self._began_at = context.now()
        self._looks_at = self._began_at

    def look(self) -> int:
        """Queue fits where there is room and something to renew; return how many.

        Once there is nothing to renew, the next minute's calls do nothing.
        """
        now = self._context.now()
        if now < self._looks_at:
            return 0
        with self._context.database.reading() as stores:
            room = self._at_most - stores.fits.queue_length()
            if room <= 0:
                return 0
            found = stores.fits.outdated_workloads(
                FORMAT_VERSION, tried_since=self._began_at, limit=room
            )
        if not found:
            self._looks_at = now + _AGAIN_AFTER
            return 0
        with self._context.database.transaction() as stores:
            count = queue_fits(
                stores,
                found,
                now,
                time_budget_s=self._context.settings.fit_time_budget_s,
                reason=FitReason.FORMAT,
            )
        _logger.info("regressors of an earlier release are fitted again", extra={"fits": count})
        return count
