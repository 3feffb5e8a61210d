"""Runs that a real MLflow keeps, in files and in its database."""

import time
from pathlib import Path

import mlflow
import pytest
from trainfare_client import Client
from trainfare_client.console import main


def _train(folder: Path, tracking: str, experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tracking)
    mlflow.set_registry_uri((folder / "registry").as_uri())
    mlflow.set_experiment(experiment)
    for depth in (2, 4):
        with mlflow.start_run(run_name=f"it's: depth {depth}"):
            mlflow.log_params({"depth": depth, "batch_size": 32, "num_epochs": 3, "world_size": 2})
            for step, used in enumerate((1e9, 3e9, 2e9)):
                mlflow.log_metric("peak_memory_bytes", used, step=step)
            time.sleep(0.05)
    with pytest.raises(ValueError, match="diverged"):
        _diverge()


def _diverge() -> None:
    with mlflow.start_run():
        mlflow.log_param("depth", 8)
        raise ValueError("diverged")


@pytest.mark.parametrize("store", ["files", "database"])
def test_runs_arrive_with_their_work_and_parameters(
    store: str, client: Client, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("mlruns" if store == "files" else "mlflow.db")
    tracking = path.as_uri() if store == "files" else f"sqlite:///{path}"
    _train(tmp_path, tracking, f"{workload}: of #1", monkeypatch)

    assert main(["import", "mlflow", str(path)]) == 0
    assert main(["import", "mlflow", str(path)]) == 0
    names = [named["workload"] for named in client.workloads.all()]
    (name,) = [name for name in names if name.startswith(workload)]
    runs = list(client.runs.all(name))

    assert name.endswith("-of-1")
    assert sorted(run["status"] for run in runs) == ["failed", "succeeded", "succeeded"]
    deep = next(run for run in runs if run["parameters"]["depth"] == 4)
    assert deep["work"] == {"dataset_size": None, "batch_size": 32, "epochs": 3}
    assert deep["configuration"]["workers"] == 2
    assert deep["resources"] == {"peak_memory_bytes": 3e9}
    assert deep["labels"]["run_name"] == "it's: depth 4"
    assert 0.05 <= deep["duration_seconds"] < 60
