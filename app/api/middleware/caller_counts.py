"""Counts the requests of each caller of this process in one-minute windows."""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from app.services.rates import Allowance


class CallerCounts:
    """The number of requests of each caller in the current minute.

    Parameters
    ----------
    limit
        Requests allowed per caller and minute.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._window = RateLimitItemPerMinute(limit)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def take(self, caller: str) -> Allowance:
        """Count one request of a caller."""
        is_allowed = self._limiter.hit(self._window, caller)
        stats = self._limiter.get_window_stats(self._window, caller)
        reset_s = math.ceil(stats.reset_time - time.time())
        if reset_s > self._window.get_expiry():
            # The clock has been set back since the window began: it would end that much later.
            self._limiter.clear(self._window, caller)
            return self.take(caller)
        return Allowance(is_allowed=is_allowed, remaining=stats.remaining, reset_s=max(1, reset_s))
