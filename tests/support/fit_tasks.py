"""Fit tasks for tests."""

import numpy as np

from app.domain.fits import FitRequest
from app.services.computing.task import FitTask
from models import FeatureTable, RunTable


def make_task(request: FitRequest, *, n_runs: int = 12) -> FitTask:
    """Return a fit task whose runs follow a simple law."""
    workers = np.array([float(2 ** (run % 4)) for run in range(n_runs)])
    sizes = np.array([1000.0 * (1 + run // 4) for run in range(n_runs)])
    features = FeatureTable({"workers": workers, "dataset_size": sizes}, {}, n_runs)
    durations = 20.0 + 0.5 * sizes / workers
    return FitTask(request, RunTable(features, durations, [f"r{i}" for i in range(n_runs)]), {})
