"""Of more bad rows than are listed the others are counted, also where good ones are imported."""

import json
from pathlib import Path

from client.tests.importing import Importing, written
from client.tests.mlflow_stores import STARTED_MS

_ROWS = 1_002
_HIDDEN = "... and 2 more.\n"


def _table(file: Path, workload: str, duration: str) -> Path:
    rows = "".join(f"{workload},r{row},{duration}\n" for row in range(_ROWS))
    return written(file, f"workload,run_id,duration_seconds\n{rows}{workload},good,1\n")


def _answer(file: Path, name: str) -> Path:
    """Write what MLflow's REST API answers about many runs of that name."""
    info = {"experiment_id": "7", "status": "FINISHED", "lifecycle_stage": "active"}
    times = {"start_time": STARTED_MS, "end_time": STARTED_MS + 61_500}
    data = {"tags": [{"key": "mlflow.runName", "value": name}]}
    runs = [
        {"info": {**info, **times, "run_id": f"r{number}"}, "data": data} for number in range(_ROWS)
    ]
    return written(file, json.dumps({"runs": runs}))


def test_rows_that_cannot_be_read_are_all_counted(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    answer = uploading("csv", _table(tmp_path / "a.csv", workload, "long"), "--skip-invalid")

    assert answer.out == f"{workload}: 1 run created, 0 already there\n"
    assert answer.err.endswith(_HIDDEN)


def test_rows_that_the_service_refuses_are_all_counted(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    uploading("csv", _table(file, workload, "1"))

    answer = uploading("csv", _table(file, workload, "2"), "--skip-invalid")

    assert answer.out == f"{workload}: 0 runs created, 1 already there\n"
    assert answer.err.count("Left out: ") == _ROWS - 2
    assert answer.err.endswith(_HIDDEN)


def test_renamed_runs_beyond_those_that_can_be_told_are_counted_as_left_out(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file, options = tmp_path / "a.json", ("--workload", workload)
    uploading("mlflow", _answer(file, "old"), *options)

    refused = uploading("mlflow", _answer(file, "new"), *options)
    skipped = uploading("mlflow", file, *options, "--skip-invalid")

    assert (refused.exit_code, skipped.exit_code) == (1, 0)
    assert skipped.out == f"{workload}: 0 runs created, 1,000 already there\n"
    assert skipped.err.startswith(_HIDDEN)
