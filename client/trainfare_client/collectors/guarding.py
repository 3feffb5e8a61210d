"""Keeps failures of a collector away from the training that it measures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trainfare_client.errors import LostRunError, SpoolError, UndeliveredError

if TYPE_CHECKING:
    from types import TracebackType

_LOGGER: Final = logging.getLogger("trainfare_client")
_DELIVERY_ERRORS: Final = (LostRunError, SpoolError, UndeliveredError)
"""If the run itself did not arrive, that is logged even after an earlier complaint."""


class Guard:
    """Swallows exceptions in its blocks; logs the first, and why a run did not arrive.

    Examples
    --------
    >>> guard = Guard()
    >>> with guard:
    ...     {}["missing"]
    >>> guard.has_complained
    True
    """

    def __init__(self) -> None:
        self.has_complained = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.complain(error)
        return True

    def complain(self, error: Exception | str) -> None:
        """Log an error, unless one was logged before and this one did not cost the run."""
        if self.has_complained and not isinstance(error, _DELIVERY_ERRORS):
            return
        self.has_complained = True
        detail = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        _LOGGER.warning("Trainfare's collector goes on without this: %s", detail)
