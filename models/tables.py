"""The two tables that enter the library: features of rows, and measured runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CORE_COLUMNS = ("workers", "dataset_size", "epochs", "batch_size")
"""Numeric columns whose effect on the duration is known beforehand, even from a single run."""

HARDWARE_COLUMNS = ("nodes", "instance_vcpus")
"""Numeric columns that describe how the cluster is built."""

LARGEST, SMALLEST = 1e100, 1e-100
"""Larger numbers are refused and smaller ones count as 0: no quotient over- or underflows."""


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """What is known of each row before it runs: the cluster, the work and the parameters.

    Parameters
    ----------
    numeric
        Column name to values, shape (n_rows,), NaN where a value is missing. Known names are
        ``workers``, ``nodes``, ``instance_vcpus`` (virtual processors of one machine),
        ``dataset_size``, ``batch_size`` (global) and ``epochs``; any other name is a parameter of
        the workload.
    categorical
        Column name to the level of each row (``gpu_type``, ``instance_type``, any parameter),
        None where it is missing.
    n_rows
        How many rows there are; every column has as many.

    Raises
    ------
    ValueError
        If a column has another length, a name is both numeric and categorical, or a number is
        infinite or beyond 1e100.

    Examples
    --------
    >>> FeatureTable({"workers": np.array([1.0, 2.0])}, {"gpu_type": ["V100", None]}, 2).n_rows
    2
    """

    numeric: Mapping[str, FloatArray]
    categorical: Mapping[str, Sequence[str | None]]
    n_rows: int

    def __post_init__(self) -> None:
        for columns in (self.numeric, self.categorical):
            for name, column in columns.items():
                if len(column) != self.n_rows:
                    raise ValueError(f"Column {name!r} has {len(column)} rows, not {self.n_rows}.")
        for name in self.numeric.keys() & self.categorical.keys():
            raise ValueError(f"Column {name!r} is numeric and categorical at once.")
        for name, is_beyond in zip(self.numeric, self._are_beyond(), strict=True):
            if is_beyond:
                raise ValueError(f"Column {name!r} holds a value beyond {LARGEST:g}.")

    def _are_beyond(self) -> Sequence[bool]:
        """Return for each numeric column whether it holds a value that is refused."""
        # Scalars for a single row: an array of one element costs ten times as much.
        if self.n_rows == 1:
            return [abs(values.item()) > LARGEST for values in self.numeric.values()]
        if not self.numeric:
            return ()
        sizes = np.abs(np.array([*self.numeric.values()]))
        are_beyond: list[bool] = np.logical_or.reduce(sizes > LARGEST, axis=1).tolist()
        return are_beyond

    def take(self, rows: IntArray) -> "FeatureTable":
        """Return the given rows, in that order.

        Examples
        --------
        >>> table = FeatureTable({"workers": np.array([1.0, 2.0, 4.0])}, {}, 3)
        >>> table.take(np.array([2, 0])).numeric["workers"].tolist()
        [4.0, 1.0]
        """
        numeric = {name: values[rows] for name, values in self.numeric.items()}
        categorical = {
            name: [levels[row] for row in rows] for name, levels in self.categorical.items()
        }
        return FeatureTable(numeric, categorical, len(rows))

    def above(self, other: "FeatureTable") -> "FeatureTable":
        """Return these rows, then another table's; a column that one lacks is missing in its rows.

        Examples
        --------
        >>> one = FeatureTable({"workers": np.array([1.0])}, {}, 1)
        >>> two = FeatureTable({"workers": np.array([2.0])}, {"gpu_type": ["T4"]}, 1)
        >>> one.above(two).categorical["gpu_type"]
        [None, 'T4']
        """
        tables = (self, other)
        numeric = {
            name: np.concatenate(
                [table.numeric.get(name, np.full(table.n_rows, np.nan)) for table in tables]
            )
            for name in dict.fromkeys([*self.numeric, *other.numeric])
        }
        categorical = {
            name: [
                level
                for table in tables
                for level in table.categorical.get(name, [None] * table.n_rows)
            ]
            for name in dict.fromkeys([*self.categorical, *other.categorical])
        }
        return FeatureTable(numeric, categorical, self.n_rows + other.n_rows)


def check_times(started_at: FloatArray | None, n_runs: int) -> None:
    """Check the start times of runs, if they are known.

    Raises
    ------
    ValueError
        If there is not one finite time for each run.
    """
    if started_at is None:
        return
    if len(started_at) != n_runs or not np.isfinite(started_at).all():
        raise ValueError("Times of start are finite, one for each run.")


@dataclass(frozen=True, slots=True)
class RunTable:
    """Completed runs of one workload.

    Parameters
    ----------
    features
        The features of the runs.
    duration_seconds
        Wall-clock seconds, shape (n_runs,), positive and finite.
    run_ids
        A name for each run, used to point back at it.
    started_at
        When each run started, in seconds since any instant, shape (n_runs,); None if unknown.

    Raises
    ------
    ValueError
        If lengths differ, a duration is not a positive finite number or a time is not finite.

    Examples
    --------
    >>> features = FeatureTable({"workers": np.array([1.0])}, {}, 1)
    >>> RunTable(features, np.array([0.0]), ["run_1"])
    Traceback (most recent call last):
    ...
    ValueError: Durations are positive finite seconds; run 'run_1' has 0.0.
    """

    features: FeatureTable
    duration_seconds: FloatArray
    run_ids: Sequence[str]
    started_at: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.features.n_rows == len(self.duration_seconds) == len(self.run_ids):
            raise ValueError("Features, durations and run identifiers differ in length.")
        check_times(self.started_at, self.n_runs)
        is_valid = np.isfinite(self.duration_seconds) & (self.duration_seconds > 0)
        if not is_valid.all():
            row = int(np.argmin(is_valid))
            raise ValueError(
                "Durations are positive finite seconds; "
                f"run {self.run_ids[row]!r} has {float(self.duration_seconds[row])}."
            )

    @property
    def n_runs(self) -> int:
        """How many runs the table holds."""
        return self.features.n_rows

    def take(self, rows: IntArray) -> "RunTable":
        """Return the given runs, in that order."""
        return RunTable(
            self.features.take(rows),
            self.duration_seconds[rows],
            [self.run_ids[row] for row in rows],
            None if self.started_at is None else self.started_at[rows],
        )
