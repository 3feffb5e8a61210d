"""Runs that a real Weights & Biases keeps, offline."""

import subprocess
import sys
from pathlib import Path

import pytest
from trainfare_client import Client
from trainfare_client.console import main

_TRAINING = """
import os, sys, time
import wandb

project, kind = sys.argv[1:]
depth = {"succeeded": 2, "failed": 4, "cancelled": 8, "killed": 16}[kind]
model = {"depth": depth, "text": "x" * 90_000}
config = {"batch_size": 32, "num_epochs": 3, "world_size": 2, "model": model}
run = wandb.init(project=project, name=f"depth {depth}", group="sweep", config=config)
run.config.update({"optimizer": "sgd"})
for step in range(200):
    run.log({"loss": 1 / (step + 1), "gpu_utilization": 0.5})
time.sleep(0.2)
run.summary["peak_memory_bytes"] = 3e9
run.log({"loss": 0.0})
if kind == "failed":
    raise ValueError("diverged")
if kind == "cancelled":
    raise KeyboardInterrupt
if kind == "killed":
    os.kill(os.getpid(), 9)
"""


def _train(folder: Path, project: str, kind: str) -> None:
    environment = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "PATH": "/usr/bin:/bin"}
    home = {"HOME": str(folder), "WANDB_DIR": str(folder)}
    arguments = [sys.executable, "-c", _TRAINING, project, kind]
    subprocess.run(
        arguments, cwd=folder, env=environment | home, capture_output=True, timeout=120, check=False
    )


def test_runs_arrive_with_their_ends_and_config(
    client: Client, workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("succeeded", "failed", "cancelled", "killed"):
        _train(tmp_path, workload, kind)

    assert main(["import", "wandb", str(tmp_path)]) == 0
    assert "Left out: 1 runs that have not ended, or were killed" in capsys.readouterr().err
    assert main(["import", "wandb", str(tmp_path / "wandb")]) == 0
    runs = {run["parameters"]["model.depth"]: run for run in client.runs.all(workload)}

    assert {depth: run["status"] for depth, run in runs.items()} == {
        2: "succeeded", 4: "failed", 8: "cancelled",
    }  # fmt: skip
    run = runs[2]
    assert run["parameters"]["optimizer"] == "sgd"
    assert run["work"] == {"dataset_size": None, "batch_size": 32, "epochs": 3}
    assert run["configuration"]["workers"] == 2
    assert run["resources"] == {"peak_memory_bytes": 3e9, "gpu_utilization": 0.5}
    assert run["labels"] == {"run_name": "depth 2", "group": "sweep"}
    assert 0.2 <= run["duration_seconds"] < 60
