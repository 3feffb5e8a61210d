"""A progress line on standard error during long work, if a terminal is attached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_WIDTH: Final = 30


class ProgressBar:
    """Shows how far something is; silent without a terminal.

    Parameters
    ----------
    label
        What is counted.
    total
        The total amount; None if unknown.
    stream
        The stream to draw on; standard error by default.
    """

    def __init__(
        self, label: str, *, total: float | None = None, stream: TextIO | None = None
    ) -> None:
        self._label = label
        self._total = total
        self._terminal = _terminal_of(stream or sys.stderr)
        self._done = 0.0

    def advance(self, amount: float) -> None:
        """Add to the amount done."""
        self.show(self._done + amount)

    def show(self, done: float) -> None:
        """Draw the amount done."""
        self._done = done
        if self._terminal is not None:
            self._terminal.write(f"\r{self._line()}")
            self._terminal.flush()

    def _line(self) -> str:
        if not self._total:
            return f"{self._done:,.0f} {self._label}"
        share = min(self._done / self._total, 1.0)
        filled = round(share * _WIDTH)
        return f"{self._label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {share:4.0%}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._terminal is not None and self._done:
            self._terminal.write("\n")
            self._terminal.flush()


def _terminal_of(stream: TextIO | None) -> TextIO | None:
    """Return a stream if it is a terminal, None if there is none."""
    try:
        return stream if stream is not None and stream.isatty() else None
    except (AttributeError, ValueError):
        # What a program puts in its place may only know how to write, or be closed.
        return None
