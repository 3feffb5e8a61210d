"""What runs show besides complete durations: GPU memory, and lower bounds of unfinished runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.convergence import ConvergenceRuns
from models.explanations.phases import PhaseRuns
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray, check_times


@dataclass(frozen=True, slots=True)
class MemoryRuns:
    """Runs that show whether a configuration fits into the memory of its GPUs.

    Parameters
    ----------
    features
        The features of the runs.
    is_out_of_memory
        True where the run ran out of GPU memory, False where it succeeded, shape (n,).
    peak_bytes
        Peak memory use of one GPU in bytes, shape (n,), NaN where it was not measured.

    Raises
    ------
    ValueError
        If lengths differ or a peak is not positive and finite.

    Examples
    --------
    >>> features = FeatureTable({"batch_size": np.array([64.0])}, {"gpu_type": ["T4"]}, 1)
    >>> MemoryRuns(features, np.array([False]), np.array([6e9])).n_runs
    1
    """

    features: FeatureTable
    is_out_of_memory: BoolArray
    peak_bytes: FloatArray

    def __post_init__(self) -> None:
        if not self.features.n_rows == len(self.is_out_of_memory) == len(self.peak_bytes):
            raise ValueError("Features, outcomes and peaks differ in length.")
        known = self.peak_bytes[~np.isnan(self.peak_bytes)]
        if not (np.isfinite(known) & (known > 0)).all():
            raise ValueError("Peaks of memory are positive finite bytes.")

    @property
    def n_runs(self) -> int:
        """How many runs the table holds."""
        return self.features.n_rows


@dataclass(frozen=True, slots=True)
class UnfinishedRuns:
    """Runs that were stopped from outside before they finished; durations are lower bounds.

    Parameters
    ----------
    features
        The features of the runs.
    elapsed_seconds
        Seconds until the run was stopped, shape (n,), positive and finite.
    progress
        Share of the work that was done, shape (n,), 0 to 1, NaN where it is unknown.
    run_ids
        A name for each run.
    started_at
        When each run started, in seconds since the same instant as for completed runs, shape (n,);
        None if unknown: the runs are then taken to have the present pace.

    Raises
    ------
    ValueError
        If lengths differ, a time is not finite, a duration is not positive and finite, or a
        progress is not within [0, 1].

    Examples
    --------
    >>> features = FeatureTable({"workers": np.array([2.0])}, {}, 1)
    >>> UnfinishedRuns(features, np.array([60.0]), np.array([1.5]), ["run_1"])
    Traceback (most recent call last):
    ...
    ValueError: The progress of a run is a share of 1.
    """

    features: FeatureTable
    elapsed_seconds: FloatArray
    progress: FloatArray
    run_ids: Sequence[str]
    started_at: FloatArray | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.elapsed_seconds), len(self.progress), len(self.run_ids)}
        if lengths != {self.features.n_rows}:
            raise ValueError("Features, durations, progress and identifiers differ in length.")
        check_times(self.started_at, self.features.n_rows)
        if not (np.isfinite(self.elapsed_seconds) & (self.elapsed_seconds > 0)).all():
            raise ValueError("Elapsed times are positive finite seconds.")
        known = self.progress[~np.isnan(self.progress)]
        if not ((known >= 0) & (known <= 1)).all():
            raise ValueError("The progress of a run is a share of 1.")

    @property
    def n_runs(self) -> int:
        """How many runs the table holds."""
        return self.features.n_rows

    def take(self, rows: IntArray) -> "UnfinishedRuns":
        """Return the given runs, in that order."""
        return UnfinishedRuns(
            self.features.take(rows),
            self.elapsed_seconds[rows],
            self.progress[rows],
            [self.run_ids[row] for row in rows],
            None if self.started_at is None else self.started_at[rows],
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What runs show besides complete durations; None for a kind that no run shows."""

    memory: MemoryRuns | None = None
    unfinished: UnfinishedRuns | None = None
    convergence: ConvergenceRuns | None = None
    phases: PhaseRuns | None = None
