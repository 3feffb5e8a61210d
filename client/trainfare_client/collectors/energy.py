"""What a training's GPUs took from the mains, by the driver's own counters."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from trainfare_client.collectors.hardware import torch_cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_LEAST_SECONDS: Final = 1.0
"""Drivers renew the counter some ten times a second: a shorter span tells more of that."""


def counters_joules() -> dict[str, float]:
    """Return what each GPU of this machine has taken since its driver was loaded, by its UUID.

    Empty without the package `nvidia-ml-py` (the extra `energy`), without a driver, and for GPUs
    that do not count: those older than Volta. A GPU in MIG mode counts for all of its parts.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    told: dict[str, float] = {}
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                with contextlib.suppress(pynvml.NVMLError):
                    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
                    millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
                    told[_bare(pynvml.nvmlDeviceGetUUID(gpu))] = millijoules / 1e3
        finally:
            pynvml.nvmlShutdown()
    return told


def gpus_in_use() -> set[str]:
    """Return the UUIDs of the GPUs that hold memory of this process, as PyTorch tells them."""
    cuda = torch_cuda()
    if cuda is None:
        return set()
    held = (index for index in range(cuda.device_count()) if cuda.max_memory_allocated(index))
    uuids = (getattr(cuda.get_device_properties(index), "uuid", None) for index in held)
    return {_bare(str(uuid)) for uuid in uuids if uuid}


def _bare(uuid: str | bytes) -> str:
    text = uuid.decode() if isinstance(uuid, bytes) else uuid
    return text.casefold().removeprefix("gpu-")


class EnergyMeter:
    """The energy of the GPUs that this process trains on, from one instant to another.

    Parameters
    ----------
    read, used, clock
        What counts joules by GPU, tells which GPUs are this process's, and tells seconds.

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
        self._began = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._before = self._read()
        self._began = self._clock()

    def mean_watts(self) -> float | None:
        """Return the mean power of this process's GPUs since `begin`.

        None where a GPU in use does not count, where none is in use, or where the span is too
        short to tell.
        """
        if not self._before:
            return None
        used = self._used()
        seconds = self._clock() - self._began
        if not used or seconds < _LEAST_SECONDS:
            return None
        now = self._read()
        if not all(gpu in self._before and gpu in now for gpu in used):
            return None
        return sum(now[gpu] - self._before[gpu] for gpu in used) / seconds
