"""Tasks from profiles in the format of uploads: which runs are known and which are asked."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.traces import (
    CATEGORICAL_COLUMNS,
    NUMERIC_COLUMNS,
    Row,
    Task,
    read_completed,
)

FEW_SHOT = 6
"""Number of known configurations in a few-shot task."""

KNOWN_SHARE = 0.7
"""Share of known configurations in a task inside the measured range."""

MIN_LEVELS = 3
_MIN_CONFIGURATIONS = 8


@dataclass(frozen=True, slots=True)
class Profile:
    """The runs of a workload, grouped by configuration."""

    folder: str
    workload: str
    configurations: tuple[tuple[Row, ...], ...]

    def task(self, kind: str, axis: str, name: str, known: Sequence[bool]) -> Task:
        """Return the task that knows some configurations and is asked about all others."""
        sides: tuple[list[Row], list[Row]] = ([], [])
        for rows, is_known in zip(self.configurations, known, strict=True):
            sides[0 if is_known else 1].extend(rows)
        full = f"{self.folder}/{self.workload}/{kind}-{name}"
        return Task(self.folder, full, kind, axis, tuple(sides[0]), tuple(sides[1]))

    def numbers(self, column: str) -> list[float | None]:
        """Return a column's number in each configuration, None where it has none."""
        return [_number(rows[0].get(column)) for rows in self.configurations]


def split_tasks(path: Path, folder: str) -> Iterator[Task]:
    """Yield tasks made of the succeeded runs of a CSV file of uploads.

    For each workload of at least eight configurations: 70 % of them known at random, six known at
    random, and all known except the largest level of each numeric column with three or more levels.
    """
    for profile in read_profiles(path, folder):
        yield from _random_tasks(profile)
        yield from _axis_tasks(profile)


def read_profiles(path: Path, folder: str) -> Iterator[Profile]:
    """Yield the workloads of a CSV file that have at least eight configurations."""
    workloads: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for row in read_completed(path):
        groups = workloads.setdefault(row["workload"], {})
        groups.setdefault(_configuration(row), []).append(row)
    for workload, groups in sorted(workloads.items()):
        if len(groups) >= _MIN_CONFIGURATIONS:
            yield Profile(folder, workload, tuple(tuple(groups[key]) for key in sorted(groups)))


def _configuration(row: Row) -> tuple[str, ...]:
    parameters = sorted(name for name in row if name.startswith("param."))
    names = (*NUMERIC_COLUMNS, *CATEGORICAL_COLUMNS, *parameters)
    return tuple(row.get(name) or "" for name in names)


def _random_tasks(profile: Profile) -> Iterator[Task]:
    n = len(profile.configurations)
    seed = int(hashlib.sha256(profile.workload.encode()).hexdigest()[:8], 16)
    rank = np.random.default_rng(seed).permutation(n)
    for name, count in (("random", round(KNOWN_SHARE * n)), ("few-shot", FEW_SHOT)):
        yield profile.task("interpolation", "random", name, (rank < count).tolist())


def _axis_tasks(profile: Profile) -> Iterator[Task]:
    parameters = [name for name in profile.configurations[0][0] if name.startswith("param.")]
    for axis in (*NUMERIC_COLUMNS, *parameters):
        values = profile.numbers(axis)
        levels = {value for value in values if value is not None}
        if len(levels) >= MIN_LEVELS and None not in values:
            known = [value != max(levels) for value in values]
            yield profile.task("extrapolation", axis, axis, known)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
