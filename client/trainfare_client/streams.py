"""Standard output and error if they are closed, or if output cannot be written."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def open_streams() -> None:
    """Replace streams that were closed before the start (`>&-`) by ones that discard output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def report_unwritable(error: OSError, kind: str = "Error") -> None:
    """Report why output cannot be written, except to a reader that closed the pipe."""
    with contextlib.suppress(OSError):
        # What is still buffered is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        sys.stderr.write(f"{kind}: The output cannot be written: {error.strerror}.\n")
