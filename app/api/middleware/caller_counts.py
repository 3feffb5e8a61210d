"""Counts the requests of each caller of this process in windows of a minute."""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from app.services.rates import Allowance


class CallerCounts:
    """How often each caller asked in this minute.

    Parameters
    ----------
    limit
        How often each may.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._window = RateLimitItemPerMinute(limit)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def take(self, caller: str) -> Allowance:
        """Count one request of a caller."""
        is_allowed = self._limiter.hit(self._window, caller)
        stats = self._limiter.get_window_stats(self._window, caller)
        return Allowance(
            is_allowed=is_allowed,
            remaining=stats.remaining,
            reset_s=max(1, math.ceil(stats.reset_time - time.time())),
        )
