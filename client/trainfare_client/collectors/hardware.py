"""The GPU's name and peak memory, from the framework that already runs on it."""

from __future__ import annotations

import sys
from typing import Any


def _cuda() -> Any:
    # A framework that the training has not loaded is not loaded for the collector's sake.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def gpu_name() -> str | None:
    """Return the name of the GPU that this process trains on, None without one."""
    cuda = _cuda()
    return None if cuda is None else str(cuda.get_device_name())


def peak_memory_bytes() -> int | None:
    """Return the most GPU memory that this process held at once, None without a GPU."""
    cuda = _cuda()
    return None if cuda is None else int(cuda.max_memory_allocated())


def wait_for_gpu() -> None:
    """Return when the GPU has done what it was asked to: steps are queued ahead."""
    cuda = _cuda()
    if cuda is not None:
        cuda.synchronize()
