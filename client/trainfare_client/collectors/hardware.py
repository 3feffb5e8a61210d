"""The GPU's name and peak memory, from the framework that already uses it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def torch_cuda() -> Any:
    """Return PyTorch's CUDA module if this process trains on a GPU through it, else None."""
    # A framework that the training has not loaded is not loaded just for the collector.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def _jax_gpu() -> Any:
    """Return JAX's first GPU if this process computes on one through it, else None."""
    jax, bridge = sys.modules.get("jax"), sys.modules.get("jax._src.xla_bridge")
    # Listing the devices of a JAX that has not started takes most of their memory. Only this
    # private module of JAX says whether it has; without the module no GPU is reported.
    is_initialized = getattr(bridge, "backends_are_initialized", None)
    if jax is None or is_initialized is None or not is_initialized():
        return None
    return next((device for device in jax.local_devices() if device.platform == "gpu"), None)


def gpu_name() -> str | None:
    """Return the name of the GPU that this process trains on, None without one."""
    cuda = torch_cuda()
    if cuda is not None:
        return str(cuda.get_device_name())
    gpu = _jax_gpu()
    return None if gpu is None else str(gpu.device_kind)


def peak_memory_bytes() -> int | None:
    """Return the most GPU memory that this process held at any time, None without a GPU."""
    cuda = torch_cuda()
    if cuda is not None:
        return int(cuda.max_memory_allocated())
    gpu = _jax_gpu()
    # A backend that uses CUDA's own allocator keeps no count.
    peak = None if gpu is None else (gpu.memory_stats() or {}).get("peak_bytes_in_use")
    return None if peak is None else int(peak)


class PeakMemory:
    """The most GPU memory that a process held during one of its runs.

    The framework counts from the process's start, and its count is the user's, so it is not reset.
    For a run that held less than what came before it in the process, the peak is unknown.

    Examples
    --------
    >>> peaks = iter([None, 7_000, 7_000, 5_000])
    >>> large = PeakMemory(read=lambda: next(peaks))
    >>> large.of_run()
    7000
    >>> small = PeakMemory(read=lambda: next(peaks))
    >>> small.of_run() is None
    True
    """

    def __init__(self, read: Callable[[], int | None] = peak_memory_bytes) -> None:
        self._read = read
        self._before = read() or 0

    def of_run(self) -> int | None:
        """Return the run's peak in bytes, None where it is not known."""
        peak = self._read()
        return None if peak is None or peak <= self._before else peak


def wait_for_gpu() -> None:
    """Wait until the GPU has done what it was asked to: steps are queued ahead.

    Raises
    ------
    Exception
        What the framework raises if part of the queued work has failed.
    """
    cuda = torch_cuda()
    if cuda is not None:
        cuda.synchronize()
        return
    gpu = _jax_gpu()
    if gpu is not None:
        jax = sys.modules["jax"]
        # The device computes in order, so this comes last.
        (jax.device_put(0.0, gpu) + 1.0).block_until_ready()
