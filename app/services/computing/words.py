"""What a fit's process writes to its standard error, as lines of this process's log."""

import logging
import threading
from contextvars import Context, copy_context
from typing import IO, Final

_logger = logging.getLogger(__name__)
_LONGEST_LINE: Final = 4096


class ChildLog:
    """Logs each line with the identifiers of the fit that the child computes.

    Parameters
    ----------
    stream
        The end of the child's standard error that this process reads.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._context = Context()
        self._thread = threading.Thread(target=self._log_lines, name="fit-words", daemon=True)
        self._thread.start()

    def use_caller_context(self) -> None:
        """Log what follows with the caller's log fields and span."""
        self._context = copy_context()

    def _log_lines(self) -> None:
        with self._stream:
            while line := self._stream.readline(_LONGEST_LINE):
                if text := line.rstrip():
                    self._context.run(_logger.warning, "fit process: %s", text)

    def end(self, within_s: float) -> None:
        """Log the last lines of a child that has ended."""
        self._thread.join(within_s)
