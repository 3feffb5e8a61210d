"""Measured runs with honest defaults."""

from typing import Any

from trainfare_client.documents import MeasuredRun


def make_run(workload: str, *, workers: int = 1, size: int = 1000, **changes: Any) -> MeasuredRun:
    """Return a run that scales as data-parallel training does."""
    run: MeasuredRun = {
        "workload": workload,
        "duration_seconds": 5.0 + size / (100 * workers),
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": size, "batch_size": 32, "epochs": 1},
    }
    return {**run, **changes}  # type: ignore[typeddict-item] # a test says what it changes


def make_profile(workload: str) -> list[MeasuredRun]:
    """Return twelve runs over workers and dataset sizes."""
    return [
        make_run(workload, workers=workers, size=size, external_id=f"{workers}-{size}")
        for workers in (1, 2, 4)
        for size in (1000, 2000, 4000, 8000)
    ]
