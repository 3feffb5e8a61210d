"""The processors and GPUs of this machine, and which configurations it can host."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.pricing.gpus import canonical_gpu_name, variants_of

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Machine:
    """Processors, names of the GPUs, and a worker limit set by the user (None: no limit)."""

    processors: int
    gpus: tuple[str, ...] = ()
    max_workers: int | None = None
    is_any: bool = False
    """Whether the user vouches for the GPU type: then only counts are checked."""

    def workers(self, gpu_type: str | None) -> int:
        """Return how many workers fit: one per GPU if a type is given, else one per processor."""
        if self.max_workers is not None:
            return self.max_workers
        has_none = not self.gpus and self.is_any
        return self.processors if gpu_type is None or has_none else len(self.gpus)

    def refusal(self, configuration: Mapping[str, Any]) -> str | None:
        """Return why a configuration cannot run here, or None if it can."""
        gpu_type, workers = configuration.get("gpu_type"), configuration.get("workers") or 1
        if (configuration.get("nodes") or 1) > 1:
            return f"needs {configuration['nodes']} machines, and this is one"
        if gpu_type is not None and not self.is_any and not self._has_gpu(gpu_type):
            available = ", ".join(sorted(set(self.gpus))) or "none"
            return f"needs a {gpu_type}; the GPUs here: {available}"
        capacity = self.workers(gpu_type)
        return f"needs {workers} workers; {capacity} fit here" if workers > capacity else None

    def _has_gpu(self, gpu_type: str) -> bool:
        names = {canonical_gpu_name(gpu_type), *variants_of(gpu_type)}
        return any(names & {canonical_gpu_name(name), *variants_of(name)} for name in self.gpus)


def this_machine(max_workers: int | None, *, is_any: bool) -> Machine:
    """Return the resources of this machine."""
    return Machine(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        tuple(gpu_names(("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"))),
        max_workers,
        is_any,
    )


def gpu_names(command: Sequence[str]) -> list[str]:
    """Return the names that a command lists, one per line; empty if it fails."""
    if shutil.which(command[0]) is None:
        return []
    try:
        result = subprocess.run(  # noqa: S603 - the command is this module's own
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return []
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
