"""Reading measured runs, train/test tasks, other tools' errors and data sheets from files."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from app.pricing.gpus import canonical_gpu_name
from app.services.tables.frames import with_boards, with_families
from app.services.tables.machine_sizes import are_sized, with_sizes
from app.services.uploads.numbers import is_number
from models import FeatureTable, HardwareDescription, RunTable

NUMERIC_COLUMNS = ("workers", "nodes", "dataset_size", "batch_size", "epochs")
CATEGORICAL_COLUMNS = ("gpu_type", "instance_type", "framework")
_MISSING: Final = ("", "nan")

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """One train/test split of the runs of a workload."""

    folder: str
    name: str
    kind: str
    axis: str
    train: tuple[Row, ...]
    test: tuple[Row, ...]

    @property
    def workload(self) -> str:
        """The workload of the runs."""
        return self.train[0]["workload"]

    def group(self) -> tuple[str, str, str]:
        """Return data set, kind and axis; splits of few runs are a separate kind."""
        kind = "few-shot" if self.name.endswith("few-shot") else self.kind
        return self.folder, kind, self.axis


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the runs of a CSV file, with GPU types named as in the service.

    Uploads do the same, since data sheets and the results of other workloads are known by that
    name. A byte order mark, as written by spreadsheets, is not part of the first column's name.
    Runs without an id are named by their row.
    """
    with path.open(newline="", encoding="utf-8-sig") as stream:
        for number, row in enumerate(csv.DictReader(stream)):
            row["run_id"] = row.get("run_id") or row.get("external_id") or f"row-{number}"
            if row.get("gpu_type"):
                row["gpu_type"] = canonical_gpu_name(row["gpu_type"])
            yield row


def read_completed(path: Path) -> Iterator[Row]:
    """Yield the runs of a CSV file that ended with success."""
    return (row for row in read_rows(path) if (row.get("status") or "succeeded") == "succeeded")


def read_tasks(folder: Path) -> list[Task]:
    """Return the tasks of a folder with ``runs.csv`` and ``tasks.json``."""
    rows = {row["run_id"]: row for row in read_rows(folder / "runs.csv")}
    tasks = json.loads((folder / "tasks.json").read_text())
    return [
        Task(
            folder.name,
            task["task"],
            task["kind"],
            task["axis"],
            tuple(rows[str(run)] for run in task["train"]),
            tuple(rows[str(run)] for run in task["test"]),
        )
        for task in tasks
    ]


def to_tables(task: Task) -> tuple[RunTable, RunTable]:
    """Return training and test runs, as the service would fit and ask them.

    A parameter is numeric if all its values are; sizes of machines are read from their names.
    """
    rows = [*task.train, *task.test]
    parameters = [name for name in rows[0] if name.startswith("param.")]
    numeric = [*NUMERIC_COLUMNS, *(name for name in parameters if _is_numeric(rows, name))]
    categorical = [*CATEGORICAL_COLUMNS, *(name for name in parameters if name not in numeric)]
    train, test = (_table(rows, numeric, categorical) for rows in (task.train, task.test))
    if not are_sized(train.features):
        return train, test
    known, unseen = (replace(runs, features=with_sizes(runs.features)) for runs in (train, test))
    return known, unseen


def _table(rows: Sequence[Row], numeric: list[str], categorical: list[str]) -> RunTable:
    features = FeatureTable(
        {name: np.array([float(row.get(name) or "nan") for row in rows]) for name in numeric},
        {name: [row.get(name) or None for row in rows] for name in categorical},
        len(rows),
    )
    durations = np.array([float(row["duration_seconds"]) for row in rows])
    return RunTable(features, durations, [row["run_id"] for row in rows])


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    """Return whether an upload would read a parameter as numbers; empty cells are missing."""
    cells = {row.get(name) or "" for row in rows}
    return all(is_number(cell, is_typed=False) for cell in cells if cell.lower() not in _MISSING)


def read_best_peers(path: Path | None) -> dict[str, float]:
    """Return the smallest MAPE (a fraction) that another tool reached on each task."""
    best: dict[str, float] = {}
    if path is None:
        return best
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["status"] == "ok" and row["mape"]:
                error = float(row["mape"]) / 100
                best[row["task"]] = min(error, best.get(row["task"], error))
    return best


SHIPPED_HARDWARE: Final = Path(__file__).parents[2] / "app/pricing/data/gpu_specifications.csv"
"""The data sheets that the service knows."""


def read_hardware(path: Path, names: Iterable[str] = ()) -> Mapping[str, HardwareDescription]:
    """Return data sheets from a CSV file of specifications; incomplete rows are left out.

    As in the service, a name that may mean several boards gets their mean, and so does a board in
    `names` without a data sheet if there are any for its chip.
    """
    sheets: dict[str, HardwareDescription] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            columns = ("fp32_tflops", "memory_gib", "memory_bandwidth_gb_s")
            if all(row[column] for column in columns):
                tensor = row["tensor_fp16_bf16_tflops"]
                fp32, memory, bandwidth = (float(row[column]) for column in columns)
                sheets[row["gpu_type"]] = HardwareDescription(
                    fp32, float(tensor) if tensor else None, memory, bandwidth
                )
    return with_boards(with_families(sheets), names)
