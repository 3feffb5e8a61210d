"""How long a process that dies again and again is let rest before its next start."""

from typing import Final

FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 30.0
_LASTING_S: Final = 600.0
"""A process that ran this long had started well: the next pause is the first one again."""


class Pauses:
    """Pauses that grow from one death to the next, up to 30 s.

    Parameters
    ----------
    first_s
        Seconds of the first pause; each further one is twice as long, until a process has run for
        ten minutes.
    """

    def __init__(self, first_s: float = FIRST_PAUSE_S) -> None:
        self._first_s = self._next_s = first_s

    def next_s(self, *, ran_s: float) -> float:
        """Return how long to wait after a process that ran for `ran_s` has died."""
        pause_s = self._first_s if ran_s >= _LASTING_S else self._next_s
        self._next_s = min(2 * pause_s, _MAX_PAUSE_S)
        return pause_s
