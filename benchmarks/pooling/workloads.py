"""Workloads of data-set folders, and tasks that leave out part of their runs."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.traces import Row, Task, read_completed, to_tables
from models import RunTable

MIN_CONFIGURATIONS = 8
"""Workloads with fewer configurations are not targets but still contribute."""

MAX_TESTED_RUNS = 300
_KEY_COLUMNS_LEFT_OUT = (
    "run_id",
    "external_id",
    "status",
    "started_at",
    "duration_seconds",
    "cost_usd",
)


@dataclass(frozen=True, slots=True)
class MeasuredWorkload:
    """All runs of one workload of a data set."""

    folder: str
    name: str
    rows: tuple[Row, ...]

    def table(self) -> RunTable:
        """Return all runs."""
        return to_tables(Task(self.folder, self.name, "", "", self.rows, ()))[0]

    def configurations(self) -> list[list[Row]]:
        """Return the runs by configuration, in the order of a hash (a fixed shuffle)."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(_key(row), []).append(row)
        return [groups[key] for key in sorted(groups)]


def _key(row: Row) -> str:
    kept = [
        f"{name}={value}"
        for name, value in sorted(row.items())
        if name not in _KEY_COLUMNS_LEFT_OUT and not name.startswith(("phase.", "label."))
    ]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def read_workloads(data: Path, only: Sequence[str] | None = None) -> list[MeasuredWorkload]:
    """Return the workloads of every folder with ``runs.csv``."""
    workloads: list[MeasuredWorkload] = []
    for path in sorted(data.glob("*/runs.csv")):
        if only and path.parent.name not in only:
            continue
        groups: dict[str, list[Row]] = {}
        for row in read_completed(path):
            groups.setdefault(row["workload"], []).append(row)
        workloads += [
            MeasuredWorkload(path.parent.name, name, tuple(rows)) for name, rows in groups.items()
        ]
    return workloads


def first_runs_tasks(
    workload: MeasuredWorkload, counts: Sequence[int], draws: int
) -> Iterator[Task]:
    """Return tasks that know a few random configurations and ask about all others."""
    configurations = workload.configurations()
    n = len(configurations)
    if n < max(MIN_CONFIGURATIONS, *(count + 2 for count in counts)):
        return
    for count in counts:
        for draw in range(draws):
            seed = int(hashlib.sha256(f"{workload.name} {draw}".encode()).hexdigest()[:8], 16)
            order = np.random.default_rng(seed).permutation(n)
            train = [row for index in order[:count] for row in configurations[index]]
            test = [row for index in order[count:] for row in configurations[index]]
            name = f"{workload.name}-first{count}-{draw}"
            yield _task(workload, name, f"first {count}", train, test)


def unseen_type_tasks(workload: MeasuredWorkload, most: int | None = None) -> Iterator[Task]:
    """Return tasks that leave out all runs of one GPU type, for all or up to `most` types.

    Types are ordered by a hash of their names, so the same ones come first in every workload.
    """
    types = sorted({row["gpu_type"] for row in workload.rows if row["gpu_type"]}, key=_hash_of)
    if len(types) < 2:  # noqa: PLR2004 - nothing would be left
        return
    for gpu_type in types[:most]:
        train = [row for row in workload.rows if row["gpu_type"] != gpu_type]
        test = [row for row in workload.rows if row["gpu_type"] == gpu_type]
        yield _task(workload, f"{workload.name}-without-{gpu_type}", "unseen type", train, test)


def _task(
    workload: MeasuredWorkload, name: str, kind: str, train: Sequence[Row], test: Sequence[Row]
) -> Task:
    tested = sorted(test, key=_key)[:MAX_TESTED_RUNS]
    return Task(workload.folder, name, kind, "", tuple(train), tuple(tested))


def _hash_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
