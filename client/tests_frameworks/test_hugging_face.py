"""The Trainer of Hugging Face, which tells its callbacks of no exception."""

import contextlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.utils.data import Dataset
from trainfare_client import Client
from trainfare_client.collectors import hugging_face


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
        from client.tests_frameworks.test_hugging_face import HuggingLine, Numbers
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


class Ending(HuggingLine):
    """A model whose second step ends with an exception."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.steps = error, 0

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.steps += 1
        if self.steps == 2:
            raise self.error
        return super().forward(inputs, labels)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (ValueError("shape"), "failed"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_hugging_face_failure_that_the_script_catches_is_recorded_at_once(
    client: Client, workload: str, tmp_path: Path, error: BaseException, status: str
) -> None:
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=16, use_cpu=True, report_to=[],
        save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Ending(error), args=arguments, train_dataset=Numbers(),
        callbacks=[hugging_face.TrainfareCallback(workload)],
    )  # fmt: skip

    with pytest.raises(type(error)) as caught:
        trainer.train()
    (run,) = client.runs.all(workload)

    assert caught.value is error
    assert run["status"] == status
    assert run["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 0.25}


class Hungry(HuggingLine):
    """A model that has memory for batches of so many samples."""

    def __init__(self, samples: int = 8) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if len(inputs) > self.samples:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return super().forward(inputs, labels)


@pytest.mark.parametrize(
    ("fitting", "told"),
    [
        (8, [("succeeded", 8), ("out_of_memory", 9)]),
        (0, [("out_of_memory", size) for size in range(1, 10)]),
    ],
)
def test_hugging_face_batches_are_those_that_fitted_into_memory(
    client: Client, workload: str, tmp_path: Path, fitting: int, told: list[tuple[str, int]]
) -> None:
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=1, per_device_train_batch_size=9,
        auto_find_batch_size=True, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=Hungry(fitting), args=arguments, train_dataset=Numbers(),
        callbacks=[hugging_face.TrainfareCallback(workload)],
    )  # fmt: skip

    with contextlib.nullcontext() if fitting else pytest.raises(RuntimeError, match="batch size"):
        trainer.train()

    runs = client.runs.all(workload)
    assert [(run["status"], run["work"]["batch_size"]) for run in runs] == told
