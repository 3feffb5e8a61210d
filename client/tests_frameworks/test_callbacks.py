"""Trainers with hooks: Lightning, Hugging Face, Accelerate, scikit-learn."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
import transformers
from accelerate import Accelerator
from lightning.pytorch.tuner import Tuner
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler
from trainfare_client import Client
from trainfare_client.collectors import hugging_face
from trainfare_client.collectors.accelerate import TrainfareTracker
from trainfare_client.collectors.lightning import TrainfareCallback
from trainfare_client.collectors.sklearn import Recorded

from client.tests_frameworks.test_torch import make_loader


class Line(lightning.LightningModule):
    """A model of one layer; `fails_at` is the batch that finds no memory."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.fails_at = fails_at

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == self.fails_at:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def validation_step(self, batch: Any) -> Any:
        return nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def _lightning_trainer(callback: TrainfareCallback, folder: Path, **options: Any) -> Any:
    return lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
        default_root_dir=folder, **options,
    )  # fmt: skip


def test_lightning_fit_is_recorded(client: Client, workload: str, tmp_path: Path) -> None:
    trainer = _lightning_trainer(TrainfareCallback(workload), tmp_path)

    trainer.fit(Line(), make_loader(), make_loader(16))
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 2}
    assert run["configuration"]["workers"] == 1
    assert run["phases"]["compute_seconds"] > 0


def test_lightning_accumulation_makes_the_global_batch(
    client: Client, workload: str, tmp_path: Path
) -> None:
    trainer = _lightning_trainer(TrainfareCallback(workload), tmp_path, accumulate_grad_batches=2)

    trainer.fit(Line(), make_loader())

    assert next(client.runs.all(workload))["work"]["batch_size"] == 32


def test_lightning_failure_is_the_users_and_recorded(
    client: Client, workload: str, tmp_path: Path
) -> None:
    trainer = _lightning_trainer(TrainfareCallback(workload, epochs=2), tmp_path)

    with pytest.raises(torch.OutOfMemoryError):
        trainer.fit(Line(fails_at=2), make_loader())
    (run,) = client.runs.all(workload)

    assert run["status"] == "out_of_memory"
    assert run["progress"] == 0.25


@pytest.mark.parametrize(
    ("limits", "epochs"), [({"max_steps": 6}, 1.5), ({"limit_train_batches": 2}, 1)]
)
def test_lightning_epochs_that_a_limit_ends_are_no_whole_ones(
    limits: dict[str, Any], epochs: float, client: Client, workload: str, tmp_path: Path
) -> None:
    trainer = _lightning_trainer(TrainfareCallback(workload), tmp_path, **limits)

    trainer.fit(Line(), make_loader())

    assert next(client.runs.all(workload))["work"]["epochs"] == epochs


def test_lightning_batches_of_a_sampler_tell_their_size(
    client: Client, workload: str, tmp_path: Path
) -> None:
    trainer = _lightning_trainer(TrainfareCallback(workload), tmp_path, accumulate_grad_batches=2)
    dataset = make_loader().dataset
    sampler = BatchSampler(SequentialSampler(dataset), batch_size=8, drop_last=False)

    trainer.fit(Line(), DataLoader(dataset, batch_sampler=sampler))

    work = next(client.runs.all(workload))["work"]
    assert work == {"dataset_size": 64, "batch_size": 16, "epochs": 2}


def test_lightning_search_of_a_learning_rate_is_no_run(
    client: Client, workload: str, tmp_path: Path
) -> None:
    class Searched(Line):
        lr = 0.01

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.lr)

    callback = TrainfareCallback(workload)
    trainer, line = _lightning_trainer(callback, tmp_path), Searched()
    before = signal.getsignal(signal.SIGTERM)

    Tuner(trainer).lr_find(line, make_loader(), num_training=4)
    assert signal.getsignal(signal.SIGTERM) == before

    trainer.fit(line, make_loader())
    (run,) = client.runs.all(workload)
    assert run["status"] == "succeeded"


class Numbers(Dataset):
    """Inputs and targets as the Hugging Face Trainer takes them."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        inputs = torch.full((8,), float(index % 5))
        return {"inputs": inputs, "labels": inputs.sum().reshape(1)}


class HuggingLine(nn.Module):
    """A model of one layer that returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        predicted = self.layer(inputs)
        return {"loss": nn.functional.mse_loss(predicted, labels), "logits": predicted}


def test_hugging_face_training_is_recorded(client: Client, workload: str, tmp_path: Path) -> None:
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=3, per_device_train_batch_size=8,
        gradient_accumulation_steps=2, use_cpu=True, report_to=[], save_strategy="no",
        logging_steps=2, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=HuggingLine(), args=arguments, train_dataset=Numbers(),
        callbacks=[hugging_face.TrainfareCallback(workload, parameters={"width": 8})],
    )  # fmt: skip

    trainer.train()
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 3}
    assert run["parameters"] == {"width": 8}
    assert run["phases"]["compute_seconds"] > 0


def test_hugging_face_training_that_was_resumed_tells_its_own_epochs(
    client: Client, workload: str, tmp_path: Path
) -> None:
    def trainer(epochs: int) -> Any:
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=epochs, per_device_train_batch_size=8,
            use_cpu=True, report_to=[], save_strategy="epoch", disable_tqdm=True,
            dataloader_pin_memory=False,
        )  # fmt: skip
        return transformers.Trainer(
            model=HuggingLine(), args=arguments, train_dataset=Numbers(),
            callbacks=[hugging_face.TrainfareCallback(workload)],
        )  # fmt: skip

    trainer(2).train()
    trainer(3).train(resume_from_checkpoint=True)

    assert [run["work"]["epochs"] for run in client.runs.all(workload)] == [1, 2]


def test_hugging_face_failure_is_recorded_when_the_script_ends(
    client: Client, workload: str, tmp_path: Path
) -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        import transformers
        from client.tests_frameworks.test_callbacks import HuggingLine, Numbers
        from trainfare_client.collectors.hugging_face import TrainfareCallback

        class Greedy(HuggingLine):
            def forward(self, inputs, labels):
                raise MemoryError

        arguments = transformers.TrainingArguments(
            output_dir={str(tmp_path)!r}, use_cpu=True, report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False)
        transformers.Trainer(model=Greedy(), args=arguments, train_dataset=Numbers(),
                             callbacks=[TrainfareCallback({workload!r})]).train()
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    (run,) = client.runs.all(workload)

    assert answer.returncode == 1
    assert "MemoryError" in answer.stderr
    assert run["status"] == "out_of_memory"


class Hungry(HuggingLine):
    """A model that has memory for batches of 8."""

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if len(inputs) > 8:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return super().forward(inputs, labels)


def test_hugging_face_batches_are_those_that_fitted_into_memory(
    client: Client, workload: str, tmp_path: Path
) -> None:
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=1, per_device_train_batch_size=9,
        auto_find_batch_size=True, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Hungry(), args=arguments, train_dataset=Numbers(),
        callbacks=[hugging_face.TrainfareCallback(workload)],
    )  # fmt: skip

    trainer.train()

    told = [(run["status"], run["work"]["batch_size"]) for run in client.runs.all(workload)]
    assert told == [("succeeded", 8), ("out_of_memory", 9)]


def test_accelerate_training_is_recorded(client: Client, workload: str) -> None:
    accelerator = Accelerator(cpu=True, log_with=TrainfareTracker(workload))
    accelerator.init_trackers("project", {"dataset_size": 64, "batch_size": 16, "lr": 0.01})
    model, loader = accelerator.prepare(nn.Linear(8, 1), make_loader())

    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        accelerator.log({"loss": float(loss)})
    accelerator.end_training()
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 1}
    assert run["configuration"]["workers"] == 1


def test_accelerate_counts_the_steps_of_the_optimizer_not_the_logs(
    client: Client, workload: str
) -> None:
    tracker = TrainfareTracker(workload, dataset_size=64, batch_size=16)
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("project", {})
    line = nn.Linear(8, 1)
    model, optimizer, loader = accelerator.prepare(
        line, torch.optim.SGD(line.parameters(), lr=0.01), make_loader()
    )

    for epoch in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
            optimizer.step()
        accelerator.log({"epoch": epoch}, step=epoch)
    accelerator.end_training()
    (run,) = client.runs.all(workload)

    assert run["work"]["epochs"] == 3


def test_accelerate_trainings_of_one_script_are_a_run_each(client: Client, workload: str) -> None:
    accelerator = Accelerator(cpu=True, log_with=TrainfareTracker(workload, dataset_size=64))

    for epochs in (1, 2, 3):
        line = nn.Linear(8, 1)
        model, optimizer, loader = accelerator.prepare(
            line, torch.optim.SGD(line.parameters(), lr=0.01), make_loader()
        )
        accelerator.init_trackers("project", {"batch_size": 16})
        for _ in range(epochs):
            for inputs, targets in loader:
                accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
                optimizer.step()
        accelerator.end_training()

    runs = list(client.runs.all(workload))
    assert [(run["status"], run["work"]["epochs"]) for run in runs] == [
        ("succeeded", epochs) for epochs in (3, 2, 1)
    ]


def test_estimator_fits_and_predicts_as_before_and_each_fit_is_recorded(
    client: Client, workload: str
) -> None:
    generator = np.random.default_rng(1)
    X = generator.normal(size=(50, 3))
    y = X.sum(axis=1)
    plain = RandomForestRegressor(n_estimators=5, max_depth=2, random_state=1)

    wrapped = Recorded(plain, workload, parameters=["n_estimators", "max_depth"]).fit(X, y)
    (run,) = client.runs.all(workload)

    np.testing.assert_array_equal(wrapped.predict(X), plain.fit(X, y).predict(X))
    assert run["work"]["dataset_size"] == 50
    assert run["parameters"] == {"n_estimators": 5, "max_depth": 2, "cores": 1}


def test_estimator_that_refuses_is_recorded_as_failed(client: Client, workload: str) -> None:
    wrapped = Recorded(LinearRegression(), workload)

    with pytest.raises(ValueError, match="inconsistent"):
        wrapped.fit(np.zeros((3, 2)), np.zeros(4))
    (run,) = client.runs.all(workload)

    assert run["status"] == "failed"
    with pytest.raises(NotFittedError):
        wrapped.predict(np.zeros((3, 2)))
