"""MLflow's runs in files, in its database, and as its REST API answers."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client.tests.importing import Importing, written
from client.tests.mlflow_stores import STARTED_MS, written_database

_PARAMS = {"batch_size": "32", "max_epochs": "3", "world_size": "4", "lr": "0.1", "a/b": "x"}


def _file_run(folder: Path, run_id: str = "r1", **changes: Any) -> Path:
    meta = {
        "artifact_uri": "file:///nowhere",
        "run_id": run_id,
        "run_name": "'it''s a run'",
        "start_time": STARTED_MS,
        "end_time": STARTED_MS + 61_500,
        "status": 3,
        "lifecycle_stage": "active",
        "tags": "[]",
        **changes,
    }
    run = folder / run_id
    for name, value in _PARAMS.items():
        (run / "params" / name).parent.mkdir(parents=True, exist_ok=True)
        written(run / "params" / name, value)
    for kind in ("metrics", "tags"):
        (run / kind).mkdir()
    written(run / "metrics" / "loss", "1 0.5 0\n2 0.25 1\n")
    written(run / "metrics" / "gpu_utilization", "1 0.9 0\n2 0.2 1\n")
    written(run / "tags" / "mlflow.runName", "it's a run")
    written(run / "meta.yaml", "".join(f"{name}: {value}\n" for name, value in meta.items()))
    return run


def _store(folder: Path, name: str = "Digits") -> Path:
    experiment = folder / "mlruns" / "7"
    experiment.mkdir(parents=True)
    written(experiment / "meta.yaml", f"experiment_id: '7'\nname: {name}\n")
    return experiment


def _answer(**changes: Any) -> dict[str, Any]:
    info = {
        "run_id": "r1",
        "experiment_id": "7",
        "status": "FINISHED",
        "start_time": str(STARTED_MS),
        "end_time": STARTED_MS + 61_500,
        "lifecycle_stage": "active",
        **changes,
    }
    data = {
        "params": [{"key": key, "value": value} for key, value in _PARAMS.items()],
        "metrics": [
            {"key": "loss", "value": 0.25, "timestamp": 1, "step": 1},
            {"key": "gpu_utilization", "value": 0.9, "timestamp": 1, "step": 1},
        ],
        "tags": [{"key": "mlflow.runName", "value": "it's a run"}],
    }
    return {"info": info, "data": data}


def test_store_becomes_runs_with_their_work(importing: Importing, tmp_path: Path) -> None:
    _file_run(_store(tmp_path))

    (row,) = importing.dry("mlflow", tmp_path / "mlruns", "--map", "param.loss=metrics.loss")

    assert row == {
        "workload": "digits",
        "external_id": "mlflow:r1",
        "status": "succeeded",
        "duration_seconds": "61.5",
        "started_at": "2026-11-21T11:03:20.000+00:00",
        "batch_size": "32",
        "epochs": "3",
        "workers": "4",
        "param.a/b": "x",
        "param.lr": "0.1",
        "param.loss": "0.25",
        "resource.gpu_utilization": "0.9",
        "label.run_name": "it's a run",
    }


def test_store_experiment_run_and_export_tell_the_same(
    importing: Importing, tmp_path: Path
) -> None:
    experiment = _store(tmp_path)
    run = _file_run(experiment)
    export = written(tmp_path / "runs.json", json.dumps({"runs": [_answer()]}))
    single = written(tmp_path / "run.json", json.dumps({"run": _answer()}))

    paths = [tmp_path / "mlruns", experiment, run, export, single]
    rows = importing.dry("mlflow", *paths, "--workload", "digits")

    assert len(rows) == 5
    assert all(row == rows[0] for row in rows)


def test_database_becomes_runs(importing: Importing, tmp_path: Path) -> None:
    database = written_database(tmp_path / "mlflow.db", lr="0.1")

    answer = importing(
        "mlflow", database, "--dry-run", "--map", "param.last=metrics.peak_memory_bytes"
    )

    (row,) = answer.rows
    assert row["param.last"] == "5.0"
    assert row["workload"] == "digits"
    assert row["param.lr"] == "0.1"
    assert row["resource.peak_memory_bytes"] == "7.0"
    assert row["label.git_sha"] == "1f2e3d"
    assert "Left out: 1 runs that have not ended" in answer.err


def test_metrics_that_are_no_numbers_are_left_out_wherever_they_stand(
    importing: Importing, tmp_path: Path
) -> None:
    run = _file_run(_store(tmp_path))
    written(run / "metrics" / "gpu_utilization", "1 0.9 0\n2 nan 1\n")
    written(run / "metrics" / "peak_memory_bytes", "1 inf 0\n")
    written(run / "metrics" / "epochs", "1 0 0\n")
    written(run / "metrics" / "batch_size", "1 8 0\n\n2 inf 1\n")
    database = written_database(tmp_path / "mlflow.db", lr="0.1")
    with closing(sqlite3.connect(database)) as connection:
        endless = "('peak_memory_bytes', 1.7976931348623157e308, 0, 'r1')"
        connection.execute(f"INSERT INTO metrics VALUES {endless}")
        connection.commit()
    answer = _answer()
    answer["data"]["metrics"] = [{"key": "peak_memory_bytes", "value": 1.7976931348623157e308}]
    export = written(tmp_path / "runs.json", json.dumps({"runs": [answer]}))

    (stored,) = importing.dry("mlflow", tmp_path / "mlruns")
    (from_database,) = importing.dry("mlflow", database)
    (exported,) = importing.dry("mlflow", export)

    assert stored["resource.gpu_utilization"] == "0.9"
    assert stored["epochs"] == _PARAMS["max_epochs"]
    assert stored["batch_size"] == _PARAMS["batch_size"]
    assert "resource.peak_memory_bytes" not in stored
    assert from_database["resource.peak_memory_bytes"] == "7.0"
    assert "resource.peak_memory_bytes" not in exported


def test_long_metrics_are_read_to_their_end(importing: Importing, tmp_path: Path) -> None:
    run = _file_run(_store(tmp_path))
    lines = [f"{STARTED_MS + step} {step / 8} {step}\n" for step in range(1, 50_001)]
    written(run / "metrics" / "loss", "".join(lines))
    written(run / "metrics" / "gpu_utilization", "".join([*lines, "1 0.5 0\n"]))

    (row,) = importing.dry("mlflow", tmp_path / "mlruns", "--map", "param.loss=metrics.loss")

    assert row["param.loss"] == row["resource.gpu_utilization"] == "6250.0"


def test_long_text_in_any_language_is_left_out(importing: Importing, tmp_path: Path) -> None:
    run = _file_run(_store(tmp_path))
    written(run / "tags" / "mlflow.note.content", "x" + "\N{SNOWMAN}" * 400_000)

    (row,) = importing.dry("mlflow", tmp_path / "mlruns")

    assert row["label.run_name"] == "it's a run"


@pytest.mark.parametrize(
    ("status", "outcome"), [(3, "succeeded"), (4, "failed"), (5, "cancelled"), (1, None)]
)
def test_statuses_become_outcomes(
    status: int, outcome: str | None, importing: Importing, tmp_path: Path
) -> None:
    experiment = _store(tmp_path)
    _file_run(experiment, "other", lifecycle_stage="deleted")
    _file_run(experiment, "r1", status=status)
    _file_run(experiment, "r2", end_time="null")
    _file_run(experiment, "r3")

    answer = importing("mlflow", tmp_path / "mlruns", "--dry-run")

    statuses = {row["external_id"]: row["status"] for row in answer.rows}
    assert statuses.get("mlflow:r1") == outcome
    assert set(statuses) - {"mlflow:r1"} == {"mlflow:r3"}
    assert "Left out: 1 deleted runs" in answer.err


def test_values_that_are_no_numbers_stay_parameters(importing: Importing, tmp_path: Path) -> None:
    run = _file_run(_store(tmp_path))
    written(run / "params" / "max_epochs", "-1")
    written(run / "params" / "prompt", "word " * 200)
    written(run / "metrics" / "epochs", "1 2 0\n")
    written(run / "metrics" / "phase.setup_seconds", "1 2.5 0\n")

    answer = importing("mlflow", tmp_path / "mlruns", "--dry-run")
    (few,) = importing.dry("mlflow", tmp_path / "mlruns", "--params", "lr,")

    (row,) = answer.rows
    assert (row["param.max_epochs"], row["epochs"]) == ("-1", "2.0")
    assert row["phase.setup_seconds"] == "2.5"
    assert "Left out: 1 parameters whose name or value is too long" in answer.err
    assert [name for name in few if name.startswith("param.")] == ["param.lr"]


def test_first_parameter_that_says_something_describes_the_run(
    importing: Importing, tmp_path: Path
) -> None:
    run = _file_run(_store(tmp_path))
    written(run / "params" / "workers", "0")
    written(run / "params" / "gpu_type", " ")
    written(run / "params" / "gpu_name", " NVIDIA L4\n")
    written(run / "params" / "precision", "fp16\n")
    written(run / "metrics" / "phase.warmup", "1 2 0\n")

    (row,) = importing.dry("mlflow", tmp_path / "mlruns")

    assert (row["workers"], row["gpu_type"], row["param.precision"]) == ("4", "NVIDIA L4", "fp16")
    assert not {"param.gpu_name", "phase.warmup"} & row.keys()


def test_parameters_with_the_name_of_a_field_are_counted_as_such(
    importing: Importing, tmp_path: Path
) -> None:
    run = _file_run(_store(tmp_path))
    written(run / "params" / "region", "eu")
    written(run / "params" / "workers", "auto")

    answer = importing("mlflow", tmp_path / "mlruns", "--dry-run")

    assert "Left out: 2 parameters with the name of a field that they do not fill" in answer.err
    assert "too long" not in answer.err


@pytest.mark.parametrize(
    ("status", "logged", "progress"),
    [(3, 0.98, None), (4, 0.98, "0.98"), (4, 1.0, "1.0"), (5, 98, None), (5, 0, None)],
)
def test_progress_is_a_share_of_what_did_not_end_well(
    status: int, logged: float, progress: str | None, importing: Importing, tmp_path: Path
) -> None:
    run = _file_run(_store(tmp_path), status=status)
    written(run / "metrics" / "progress", f"1 {logged} 0\n")

    (row,) = importing.dry("mlflow", tmp_path / "mlruns")

    assert row.get("progress") == progress


def test_parameter_that_no_run_has_is_refused_with_the_nearest(
    importing: Importing, tmp_path: Path
) -> None:
    _file_run(_store(tmp_path))

    answer = importing("mlflow", tmp_path / "mlruns", "--params", "lrr", "--dry-run")

    assert answer.exit_code == 2
    assert "Error: --params names the parameter 'lrr', which no run has." in answer.err
    assert "Remedy: Did you mean 'lr'? There are: " in answer.err
    assert answer.out == ""


def test_names_in_every_spelling_of_yaml_are_read(importing: Importing, tmp_path: Path) -> None:
    for number, name in enumerate(["'It''s: #1'", '"It\\u0027s: #1"', "It's\n  #1", '"a\\q"']):
        experiment = _store(tmp_path / str(number), name)
        _file_run(experiment, f"r{number}")

    told = ("--map", "label.name=experiment")
    stores = [tmp_path / str(number) / "mlruns" for number in range(4)]
    names = [importing.dry("mlflow", store, *told)[0]["label.name"] for store in stores]

    assert names == ["It's: #1", "It's: #1", "It's #1", "a\\q"]


def test_further_pages_are_told(importing: Importing, tmp_path: Path) -> None:
    file = written(
        tmp_path / "runs.json", json.dumps([{"runs": [_answer()], "next_page_token": "abc"}])
    )

    answer = importing("mlflow", file, "--dry-run")

    assert answer.rows[0]["workload"] == "mlflow-7"
    assert "next_page_token" in answer.err


def test_export_has_deleted_runs_and_ids_of_older_versions(
    importing: Importing, tmp_path: Path
) -> None:
    old = _answer(run_uuid="old", run_id=None)
    runs = [_answer(), _answer(run_id="r2", lifecycle_stage="deleted"), _answer(end_time=0)]
    late = _answer(run_id="late", start_time=1 << 59)
    file = written(tmp_path / "a.json", json.dumps([{"runs": runs}, {"runs": [old, late]}, {}]))

    answer = importing("mlflow", file, "--dry-run", "--skip-invalid")

    assert [row["external_id"] for row in answer.rows] == ["mlflow:r1", "mlflow:old"]
    assert "Left out: 1 deleted runs" in answer.err
    assert "Left out: 1 runs that have not ended" in answer.err
    assert f"{file}: runs[4]: Its start is beyond the year 9999." in answer.err
    assert "next_page_token" not in answer.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[3]", "not an export of MLflow's REST API"),
        ('{"runs": [{"info": {}}]}', "runs[0]: It is not a run"),
        ('{"runs": 3}', "runs[0]: It is not a run"),
        ("SQLite format 3\0" + "x" * 2000, "It is not a database of MLflow"),
        (json.dumps(_answer(start_time=1 << 59)), "beyond the year 9999"),
        (json.dumps(_answer(end_time=STARTED_MS)), "The duration 0.0"),
        (json.dumps({"runs": []}), "There are no runs to import."),
        ("{}", "There are no runs to import."),
        ("[]", "There are no runs to import."),
        ('{"next_page_token": "abc"}', "Left out: 1 further pages of runs"),
    ],
)
def test_what_is_no_export_is_refused(
    content: str, said: str, importing: Importing, tmp_path: Path
) -> None:
    answer = importing("mlflow", written(tmp_path / "a.json", content), "--dry-run")

    assert answer.exit_code == 1
    assert said in answer.err


def test_folder_that_is_no_store_is_refused(importing: Importing, tmp_path: Path) -> None:
    run = _file_run(_store(tmp_path / "bad"))
    written(run / "metrics" / "loss", "nothing\n")
    (run / "params" / "lr").write_bytes(b"\xff")

    empty = importing("mlflow", tmp_path / "bad" / "mlruns" / "7" / "r1" / "tags", "--dry-run")
    broken = importing("mlflow", tmp_path / "bad", "--dry-run")
    (run / "params" / "lr").write_bytes(b"1")
    worse = importing("mlflow", tmp_path / "bad" / "mlruns", "--dry-run")

    assert "There are no runs of MLflow in it." in empty.err
    assert "Newer versions keep them in the database mlflow.db" in empty.err
    assert "There are no runs of MLflow in it." in broken.err
    assert "'nothing' is not a value of a metric." in worse.err


def test_uploading_twice_creates_nothing_new(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    _file_run(_store(tmp_path))
    options = ["--workload", workload]

    first = uploading("mlflow", tmp_path / "mlruns", *options)
    second = uploading("mlflow", tmp_path / "mlruns", *options)

    assert first.out == f"{workload}: 1 run created, 0 already there\n"
    assert second.out == f"{workload}: 0 runs created, 1 already there\n"


@pytest.mark.parametrize("skipping", [[], ["--skip-invalid"]])
def test_run_that_was_renamed_is_already_there(
    uploading: Importing, workload: str, tmp_path: Path, skipping: list[str]
) -> None:
    experiment = _store(tmp_path)
    run = _file_run(experiment)
    options = [tmp_path / "mlruns", "--workload", workload]
    uploading("mlflow", *options)
    written(run / "tags" / "mlflow.runName", "the best one")
    _file_run(experiment, "r2")

    renamed = uploading("mlflow", *options, *skipping)
    meta = (run / "meta.yaml").read_text()
    written(run / "meta.yaml", meta.replace(str(STARTED_MS + 61_500), str(STARTED_MS + 62_500)))
    changed = uploading("mlflow", *options)

    assert renamed.exit_code == 0
    assert renamed.out == f"{workload}: 1 run created, 1 already there\n"
    assert "Stored runs keep the names that the source has changed since (label.run_name)." in (
        renamed.err
    )
    assert changed.exit_code == 1
    assert "duration_seconds" in changed.err
