"""Standard output and error where they are closed, or where what is printed has no place."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def open_streams() -> None:
    """Let what was closed before the start (`>&-`) take what is printed, and lose it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def leave_unwritten(error: OSError, kind: str = "Error") -> None:
    """Say why the output has no place; whoever closed a pipe has seen enough."""
    with contextlib.suppress(OSError):
        # What is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        sys.stderr.write(f"{kind}: The output cannot be written: {error.strerror}.\n")
