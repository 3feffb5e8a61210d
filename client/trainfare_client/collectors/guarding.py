"""Keeps what goes wrong in a collector away from the training that it measures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

_LOGGER: Final = logging.getLogger("trainfare_client")


class Guard:
    """Swallows the exceptions of its blocks and logs the first.

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
        """Log an error, unless one was logged before."""
        if self.has_complained:
            return
        self.has_complained = True
        detail = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        _LOGGER.warning("Trainfare's collector goes on without this: %s", detail)
