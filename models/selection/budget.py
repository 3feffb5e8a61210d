"""The time budget of a fit: whether a next step fits into it, and why one was left out."""

import time
from collections.abc import Callable

HELD_OUT_SETS = "held_out_sets"
"""The name under which a report lists held-out sets that did not fit into the budget."""

_RESERVE_RATIO = 0.5
"""Time for weights, calibration and report, relative to that of preparing the runs."""

Progress = Callable[[float, str], None]


class Budget:
    """Tells whether a next step fits into the time left, and reports progress.

    Parameters
    ----------
    seconds
        Wall-clock seconds from now on.
    progress
        Called with the share done and the step under way; an exception it raises ends the fit.
    clock
        Returns seconds since an arbitrary moment.
    """

    def __init__(
        self, seconds: float, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._progress, self._clock = seconds, progress, clock
        self._started = self._last = self._prepared = clock()

    def mark_prepared(self) -> None:
        """Note that the runs are prepared; half of that time is reserved for the end of the fit."""
        self._prepared = self._last = self._clock()

    def begin(self, share: float, step: str) -> bool:
        """Report a step and return whether it fits if it takes as long as the one before."""
        return self._fits(share, step, 0.0)

    def begin_all(self, share: float, step: str) -> bool:
        """Do the same for a step that takes at least half of the time since `mark_prepared`."""
        return self._fits(share, step, 0.5)

    def _fits(self, share: float, step: str, min_share: float) -> bool:
        self._progress(share, step)
        now = self._clock()
        duration_s, self._last = max(now - self._last, min_share * (now - self._prepared)), now
        reserve_s = _RESERVE_RATIO * (self._prepared - self._started)
        return now - self._started + duration_s + reserve_s <= self._seconds

    def reason(self) -> str:
        """Return why a step was left out, in words.

        Examples
        --------
        >>> Budget(1.5, lambda share, step: None).reason()
        'left out: the time budget of 1.5 s was spent'
        """
        return f"left out: the time budget of {self._seconds:g} s was spent"
