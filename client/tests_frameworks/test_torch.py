"""PyTorch loops: alone, and two processes that train one model together."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from trainfare_client import Client
from trainfare_client.collectors.torch import TorchCollector, samples_in
from trainfare_client.spool import Spool

_HERE = Path(__file__).parent
_CLOSED = "http://127.0.0.1:9"


def make_loader(samples: int = 64, *, batch_size: int = 16) -> Any:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, 8, generator=generator)
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=batch_size)


def train(model: Any, loader: Any, *, epochs: int = 1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()


def test_loop_is_recorded(client: Client, workload: str) -> None:
    model = nn.Linear(8, 1)

    collector = TorchCollector(workload, model=model, parameters={"width": 8})
    loader = collector.watch(make_loader())
    train(model, loader, epochs=3)
    collector.finish()
    (run,) = client.runs.all(workload)

    assert len(loader) == 4
    assert loader.batch_size == 16
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 3}
    assert run["configuration"]["workers"] == 1
    assert run["status"] == "succeeded"
    assert {"setup_seconds", "data_loading_seconds", "compute_seconds"} <= run["phases"].keys()
    parts = run["phases"]["data_loading_seconds"] + run["phases"]["compute_seconds"]
    assert parts <= run["duration_seconds"] * 1.000_001


def test_compilation_is_setup(client: Client, workload: str) -> None:
    class Compiled(nn.Linear):
        """Takes a second for its first call, as a compiler does."""

        is_compiled = False

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if not self.is_compiled:
                self.is_compiled = True
                for _ in range(200):
                    torch.linalg.svd(torch.randn(100, 100))
            return super().forward(inputs)

    with TorchCollector(workload) as collector:
        train(Compiled(8, 1), collector.watch(make_loader(batch_size=4)), epochs=2)
    (run,) = client.runs.all(workload)

    assert run["phases"]["setup_seconds"] > run["duration_seconds"]


def test_failed_loop_is_recorded_with_its_progress(client: Client, workload: str) -> None:
    def loop() -> None:
        with TorchCollector(workload, epochs=2) as collector:
            for number, _ in enumerate(collector.watch(make_loader())):
                if number == 2:
                    raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        loop()
    (run,) = client.runs.all(workload)

    assert run["status"] == "out_of_memory"
    assert run["progress"] == 0.25


def test_samples_are_counted_in_any_batch() -> None:
    tensor = torch.zeros(5, 2)

    assert samples_in(tensor) == 5
    assert samples_in([tensor, tensor]) == 5
    assert samples_in({"x": tensor}) == 5
    assert samples_in(torch.tensor(1.0)) == 1
    assert samples_in(None) == 0


def _run_script(script: str, workload: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", "2", str(_HERE / script), workload,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip


def _state_of(answer: subprocess.CompletedProcess[str]) -> list[str]:
    return sorted(line for line in answer.stdout.splitlines() if "trained to" in line)


def test_collector_is_at_most_five_lines_of_the_script() -> None:
    plain = (_HERE / "ddp_plain.py").read_text().splitlines()
    recorded = (_HERE / "ddp_recorded.py").read_text().splitlines()

    added = [line for line in recorded[1:] if line.strip() and line not in plain]
    lost = [line for line in plain[1:] if line not in recorded]

    assert 1 <= len(added) <= 5
    assert lost == []


def test_two_processes_arrive_as_one_run_and_the_second_run_is_judged(
    client: Client, workload: str
) -> None:
    untouched = _run_script("ddp_plain.py", workload)
    first = _run_script("ddp_recorded.py", workload)
    client.fits.wait(client.fits.request(workload, time_budget_s=5, seed=1)["fit_id"])

    second = _run_script("ddp_recorded.py", workload)
    runs = list(client.runs.all(workload))

    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert _state_of(untouched) == _state_of(first) == _state_of(second)
    assert "nothing was forecast" in first.stderr
    assert second.stderr.count("forecast was") == 1
    assert len(runs) == 2
    for run in runs:
        assert run["configuration"]["workers"] == 2
        assert run["configuration"]["nodes"] == 1
        assert run["work"] == {"dataset_size": 256, "batch_size": 32, "epochs": 2}
        assert run["phases"]["communication_seconds"] > 0


def test_training_ends_as_before_while_the_service_is_down_and_the_run_arrives_later(
    client: Client, workload: str, tmp_path: Path
) -> None:
    untouched = _run_script("ddp_plain.py", workload)

    away = _run_script("ddp_recorded.py", workload, TRAINFARE_URL=_CLOSED)
    waiting = Spool(tmp_path / "spool.jsonl").waiting()
    flushed = subprocess.run(
        [sys.executable, "-m", "trainfare_client", "flush"],
        capture_output=True,
        text=True,
        check=True,
    )
    runs = list(client.runs.all(workload))

    assert away.returncode == untouched.returncode == 0, away.stderr
    assert _state_of(away) == _state_of(untouched)
    assert "trainfare-client flush" in away.stderr
    assert waiting == 1
    assert "1 created" in flushed.stdout
    assert [run["status"] for run in runs] == ["succeeded"]


@pytest.mark.parametrize("script", ["ddp_recorded.py", "accelerate_recorded.py"])
def test_memory_that_another_rank_lacked_is_the_outcome(
    script: str, client: Client, workload: str
) -> None:
    answer = _run_script(script, workload, FAIL_ON_RANK="1")
    (run,) = client.runs.all(workload)

    assert answer.returncode != 0
    assert run["status"] == "out_of_memory"


def test_rank_of_accelerate_that_ends_by_itself_leaves_no_note(
    client: Client, workload: str, tmp_path: Path
) -> None:
    answer = _run_script("accelerate_recorded.py", workload)
    (run,) = client.runs.all(workload)

    assert answer.returncode == 0, answer.stderr
    assert run["status"] == "succeeded"
    assert list(tmp_path.glob("ranks-*")) == []
