"""The same runs as a CSV file, as rows for plain inserts, and as tuples for the driver."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import orjson

from app.domain.identifiers import new_identifiers

_HEADER = (
    "run_id,workload,framework,gpu_type,instance_type,nodes,workers,dataset_size,batch_size,"
    "epochs,duration_seconds,param.precision,param.seq_len,phase.sync_seconds"
)
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of the benchmark."""

    external_id: str
    nodes: int
    workers: int
    dataset_size: float
    batch_size: float
    duration_seconds: float
    precision: str
    seq_len: int
    sync_seconds: float


def make_runs(count: int, seed: int = 0) -> list[MeasuredRun]:
    """Return `count` plausible runs."""
    generator = random.Random(seed)
    runs = []
    for index in range(count):
        workers = 2 ** generator.randrange(7)
        runs.append(
            MeasuredRun(
                external_id=f"run-{index}",
                nodes=max(1, workers // 4),
                workers=workers,
                dataset_size=float(generator.randrange(1, 1_000_000)),
                batch_size=float(2 ** generator.randrange(4, 12)),
                duration_seconds=round(generator.uniform(1, 10_000), 3),
                precision=generator.choice(["fp32", "fp16", "bf16"]),
                seq_len=2 ** generator.randrange(6, 12),
                sync_seconds=round(generator.uniform(0, 10), 4),
            )
        )
    return runs


def to_csv(runs: Sequence[MeasuredRun], workload: str) -> bytes:
    """Return the runs as the file that a user uploads."""
    lines = [
        f"{run.external_id},{workload},pytorch,T4,g4dn.12xlarge,{run.nodes},{run.workers},"
        f"{run.dataset_size:g},{run.batch_size:g},1,{run.duration_seconds},{run.precision},"
        f"{run.seq_len},{run.sync_seconds}"
        for run in runs
    ]
    return "\n".join([_HEADER, *lines]).encode()


def to_ndjson(runs: Sequence[MeasuredRun], workload: str) -> bytes:
    """Return the runs as lines of JSON."""
    lines = [
        orjson.dumps(
            {
                "workload": workload,
                "external_id": run.external_id,
                "duration_seconds": run.duration_seconds,
                "configuration": {
                    "gpu_type": "T4",
                    "instance_type": "g4dn.12xlarge",
                    "nodes": run.nodes,
                    "workers": run.workers,
                },
                "work": {
                    "dataset_size": run.dataset_size,
                    "batch_size": run.batch_size,
                    "epochs": 1,
                },
                "parameters": {
                    "framework": "pytorch",
                    "precision": run.precision,
                    "seq_len": run.seq_len,
                },
                "phases": {"sync_seconds": run.sync_seconds},
            }
        )
        for run in runs
    ]
    return b"\n".join(lines)


def to_rows(runs: Sequence[MeasuredRun], workload_id: int) -> list[Row]:
    """Return the runs as column values of the table `run`, ready to insert."""
    now = datetime.now(UTC)
    identifiers = new_identifiers("run", len(runs))
    return [
        {
            "id": identifier,
            "workload_id": workload_id,
            "external_id": run.external_id,
            "content_sha256": sha256(identifier.encode()).hexdigest(),
            "status": "succeeded",
            "duration_seconds": run.duration_seconds,
            "workers": run.workers,
            "nodes": run.nodes,
            "dataset_size": run.dataset_size,
            "batch_size": run.batch_size,
            "epochs": 1.0,
            "gpu_type": "T4",
            "instance_type": "g4dn.12xlarge",
            "parameters": {
                "framework": "pytorch",
                "precision": run.precision,
                "seq_len": run.seq_len,
            },
            "phases": {"sync_seconds": run.sync_seconds},
            "excluded": False,
            "created_at": now,
        }
        for identifier, run in zip(identifiers, runs, strict=True)
    ]


def to_driver_values(row: Mapping[str, object]) -> tuple[object, ...]:
    """Return a row as the driver takes it, with documents and instants as text."""
    return tuple(
        orjson.dumps(value).decode()
        if isinstance(value, dict)
        else str(value)
        if isinstance(value, datetime)
        else value
        for value in row.values()
    )
