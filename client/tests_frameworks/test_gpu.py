"""The collectors on a GPU: its name, its memory, its energy, and the steps that it still owes."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import transformers
from accelerate import Accelerator
from torch import nn
from trainfare_client import Client
from trainfare_client.collectors import hugging_face
from trainfare_client.collectors.accelerate import TrainfareTracker
from trainfare_client.collectors.energy import counters_joules
from trainfare_client.collectors.lightning import TrainfareCallback
from trainfare_client.collectors.torch import TorchCollector

from client.tests_frameworks.test_callbacks import Line
from client.tests_frameworks.test_hugging_face import HuggingLine, Numbers
from client.tests_frameworks.test_torch import make_loader

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

_SIDE = 8192
_BYTES = 3 * 4 * _SIDE**2


def _gpu_type(client: Client) -> str:
    return str(client.gpus.get(torch.cuda.get_device_name())["gpu_type"])


def test_loop_is_timed_to_the_end_of_what_it_queued(client: Client, workload: str) -> None:
    torch.cuda.reset_peak_memory_stats()
    factor = torch.randn(_SIDE, _SIDE, device="cuda")
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    collector = TorchCollector(workload)
    began.record()
    for _ in collector.watch(make_loader()):
        for _ in range(20):
            product = factor @ factor
    ended.record()
    collector.finish()
    (run,) = client.runs.all(workload)

    del product
    of_gpu_s = began.elapsed_time(ended) / 1000
    measured_s = run["duration_seconds"] + run["phases"]["setup_seconds"]
    assert of_gpu_s * 0.98 <= measured_s <= of_gpu_s + 1.0
    assert run["configuration"]["gpu_type"] == _gpu_type(client)
    assert run["resources"]["peak_gpu_memory_bytes"] >= _BYTES * 2 // 3


def test_energy_is_what_the_driver_counted(client: Client, workload: str) -> None:
    before = counters_joules()
    if not before:
        pytest.skip("the driver counts no energy here, or nvidia-ml-py is not installed")
    factor = torch.randn(_SIDE, _SIDE, device="cuda")

    collector = TorchCollector(workload, warmup_steps=0)
    for _ in collector.watch(make_loader()):
        for _ in range(40):
            factor @ factor
        torch.cuda.synchronize()
    collector.finish()
    spent = sum(counters_joules().values()) - sum(before.values())
    (run,) = client.runs.all(workload)

    assert 0.5 * spent < run["resources"]["energy_joules"] < 1.2 * spent
    assert 50 < run["resources"]["energy_joules"] / run["duration_seconds"] < 1500


def test_memory_that_the_gpu_lacks_is_the_outcome(client: Client, workload: str) -> None:
    def loop() -> None:
        with TorchCollector(workload) as collector:
            for _ in collector.watch(make_loader()):
                torch.empty(2**44, dtype=torch.uint8, device="cuda")

    with pytest.raises(torch.OutOfMemoryError):
        loop()
    (run,) = client.runs.all(workload)

    assert run["status"] == "out_of_memory"
    assert run["configuration"]["gpu_type"] == _gpu_type(client)


def _run(script: str, folder: Path, workload: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, str(path), workload],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_step_that_fails_after_its_loop_is_no_success(
    client: Client, workload: str, tmp_path: Path
) -> None:
    script = """
        import sys
        import torch
        from trainfare_client import record

        weights = torch.zeros(4, device="cuda")
        with record(sys.argv[1], dataset_size=8, epochs=1):
            weights[torch.tensor([9], device="cuda")] += 1
    """
    answer = _run(script, tmp_path, workload)
    (run,) = client.runs.all(workload)

    assert run["status"] == "failed", answer.stderr
    assert run["configuration"]["gpu_type"] == _gpu_type(client)


def test_jax_tells_gpu_and_memory_and_is_waited_for(
    client: Client, workload: str, tmp_path: Path
) -> None:
    pytest.importorskip("jax")
    script = """
        import sys, time
        import jax, jax.numpy as jnp
        from trainfare_client import record

        @jax.jit
        def work(matrix):
            return jax.lax.fori_loop(0, 200, lambda _, m: m @ matrix, matrix)

        matrix = jnp.full((8192, 8192), 1e-4)
        work(matrix).block_until_ready()
        began = time.perf_counter()
        with record(sys.argv[1], dataset_size=8, epochs=1, quiet=True):
            product = work(matrix)
            queued = time.perf_counter()
        product.block_until_ready()
        print(queued - began, time.perf_counter() - began)
    """
    answer = _run(script, tmp_path, workload)
    (run,) = client.runs.all(workload)

    queued_s, done_s = map(float, answer.stdout.split())
    assert queued_s < run["duration_seconds"] <= done_s
    assert run["duration_seconds"] > 0.2
    assert run["configuration"]["gpu_type"] == _gpu_type(client)
    assert "peak_gpu_memory_bytes" not in run["resources"] or (
        run["resources"]["peak_gpu_memory_bytes"] >= _BYTES // 3
    )


def _lightning(workload: str, folder: Path) -> None:
    lightning.Trainer(
        max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=[TrainfareCallback(workload)],
    ).fit(Line(), make_loader())  # fmt: skip


def _hugging_face(workload: str, folder: Path) -> None:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=2, per_device_train_batch_size=16,
        report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    callbacks = [hugging_face.TrainfareCallback(workload)]
    transformers.Trainer(
        HuggingLine(), arguments, train_dataset=Numbers(), callbacks=callbacks
    ).train()


def _accelerate(workload: str, folder: Path) -> None:
    accelerator = Accelerator(log_with=TrainfareTracker(workload), project_dir=folder)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, make_loader())
    accelerator.init_trackers("project", {"dataset_size": 64, "batch_size": 16, "epochs": 2})
    for _ in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
            optimizer.step()
    accelerator.end_training()


@pytest.mark.parametrize("train", [_lightning, _hugging_face, _accelerate])
def test_trainers_tell_the_gpu_that_they_chose(
    train: Any, client: Client, workload: str, tmp_path: Path
) -> None:
    train(workload, tmp_path)
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 2}
    assert run["configuration"]["gpu_type"] == _gpu_type(client)
