"""Trainers with hooks: Lightning, Accelerate, scikit-learn."""

import signal
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from accelerate import Accelerator
from lightning.pytorch.tuner import Tuner
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from trainfare_client import Client
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


def test_tracker_of_an_accelerate_that_starts_none_is_recorded(
    client: Client, workload: str
) -> None:
    """Before 1.8, the configuration is the first that a tracker hears of."""
    tracker = TrainfareTracker(workload)

    tracker.store_init_configuration({"dataset_size": 64, "batch_size": 16, "epochs": 1})
    tracker.log({"loss": 1.0})
    tracker.finish()

    (run,) = client.runs.all(workload)
    assert run["status"] == "succeeded"
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 1}


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
