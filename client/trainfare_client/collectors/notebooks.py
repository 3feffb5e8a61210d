"""Tells when the cell of a notebook ended in which a training did something."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.collectors.outcomes import status_of

if TYPE_CHECKING:
    from collections.abc import Callable

_EVENT: Final = "post_run_cell"


class CellWatch:
    """Follows the cells of IPython, whose process outlives the trainings in it.

    Outside of IPython, and in other threads than the main one, it sees no cells.

    Parameters
    ----------
    read_mark
        When the training last did something, by the clock.
    report_error
        Called with the status of a training that did something in a cell that an exception ended.
    clock
        The clock.
    """

    def __init__(
        self,
        read_mark: Callable[[], float],
        report_error: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._read_mark, self._report_error, self._clock = read_mark, report_error, clock
        self._shell: Any = None
        self._seen: float | None = None
        self._cell_ended_at: float | None = None

    def start(self) -> None:
        """Start to follow the cells."""
        get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
        if get_ipython is not None and threading.current_thread() is threading.main_thread():
            self._shell = get_ipython()
        if self._shell is not None:
            self._shell.events.register(_EVENT, self._on_cell_end)

    def stop(self) -> None:
        """Stop to follow the cells."""
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.events.unregister(_EVENT, self._on_cell_end)

    def ended_at(self) -> float | None:
        """Return when the cell ended in which the training did what it did last.

        None in that cell itself, and where there are no cells.
        """
        return self._cell_ended_at if self._seen == self._read_mark() else None

    def _on_cell_end(self, result: Any) -> None:
        mark = self._read_mark()
        if mark != self._seen:
            self._seen, self._cell_ended_at = mark, self._clock()
            if result.error_in_exec is not None:
                self._report_error(status_of(result.error_in_exec))
