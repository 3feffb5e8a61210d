"""The energy that a training's GPUs drew, by the driver's own counters."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from trainfare_client.collectors.hardware import torch_cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_MIN_SECONDS: Final = 1.0
"""Drivers update the counter about ten times a second, which would distort a shorter span."""


def counters_joules() -> dict[str, float]:
    """Return the joules that each GPU of this machine drew since its driver was loaded, by UUID.

    Empty without the package `nvidia-ml-py` (the extra `energy`) or without a driver; GPUs without
    a counter, those older than Volta, are missing. A GPU in MIG mode counts for all its parts.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    joules: dict[str, float] = {}
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                with contextlib.suppress(pynvml.NVMLError):
                    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
                    millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
                    joules[_plain_uuid(pynvml.nvmlDeviceGetUUID(gpu))] = millijoules / 1e3
        finally:
            pynvml.nvmlShutdown()
    return joules


def gpus_in_use() -> set[str]:
    """Return the UUIDs of the GPUs on which this process holds memory, according to PyTorch."""
    cuda = torch_cuda()
    if cuda is None:
        return set()
    indices = (index for index in range(cuda.device_count()) if cuda.max_memory_allocated(index))
    uuids = (getattr(cuda.get_device_properties(index), "uuid", None) for index in indices)
    return {_plain_uuid(str(uuid)) for uuid in uuids if uuid}


def _plain_uuid(uuid: str | bytes) -> str:
    text = uuid.decode() if isinstance(uuid, bytes) else uuid
    return text.casefold().removeprefix("gpu-")


class EnergyMeter:
    """The energy of the GPUs that this process trains on, over a span of time.

    Parameters
    ----------
    read, used, clock
        Returns joules by GPU, the GPUs of this process, and seconds.

    Examples
    --------
    >>> counts, seconds = iter([{"a": 10.0}, {"a": 710.0}]), iter([0.0, 2.0])
    >>> meter = EnergyMeter(lambda: next(counts), lambda: {"a"}, lambda: next(seconds))
    >>> meter.begin()
    >>> meter.mean_watts()
    350.0
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, float]] = counters_joules,
        used: Callable[[], Collection[str]] = gpus_in_use,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._read, self._used, self._clock = read, used, clock
        self._before: Mapping[str, float] = {}
        self._began_at = 0.0

    def begin(self) -> None:
        """Start counting now."""
        self._before = self._read()
        self._began_at = self._clock()

    def mean_watts(self) -> float | None:
        """Return the mean power of this process's GPUs since `begin`.

        None if a GPU in use has no counter, if none is in use, or if the span is too short.
        """
        if not self._before:
            return None
        used = self._used()
        seconds = self._clock() - self._began_at
        if not used or seconds < _MIN_SECONDS:
            return None
        after = self._read()
        if not all(gpu in self._before and gpu in after for gpu in used):
            return None
        return sum(after[gpu] - self._before[gpu] for gpu in used) / seconds
