"""Measure trainings of language models on one GPU with the project's collector.

Each trial draws its size, batch, precision and recomputation at random, as in a search for good
settings; many run out of memory. The collector keeps the runs in its spool or uploads them.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from language_model import LanguageModel
from torch.utils.data import DataLoader, TensorDataset
from trainfare_client.collectors.torch import TorchCollector
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY = 16384
REPEATED = 6
"""Every so many trials, one is repeated."""
CHOICES: dict[str, Sequence[Any]] = {
    "dataset_size": (512, 1024, 2048),
    "batch_size": (8, 32, 128, 512),
    "layers": (4, 8, 16),
    "width": (256, 512, 1024),
    "sequence_length": (128, 512, 2048),
    "precision": ("tf32", "bf16"),
    "recomputed": ("nothing", "blocks"),
}
SIZES = ("dataset_size", "batch_size", "sequence_length")


@dataclass(frozen=True, slots=True)
class Trial:
    """One training to measure."""

    dataset_size: int
    batch_size: int
    layers: int
    width: int
    sequence_length: int
    precision: str
    recomputed: str
    repetition: int = 1

    @override
    def __str__(self) -> str:
        return "-".join(str(value) for value in asdict(self).values())


def plan(n_trials: int, seed: int, fraction: float) -> list[Trial]:
    """Return trials drawn at random, one in six of them twice, in random order."""
    generator = random.Random(seed)
    drawn: dict[str, Trial] = {}
    while len(drawn) < n_trials:
        values = {name: generator.choice(choices) for name, choices in CHOICES.items()}
        values |= {name: max(4, round(values[name] * fraction)) for name in SIZES}
        trial = Trial(**values)
        drawn[str(trial)] = trial
    trials = list(drawn.values())
    trials += [replace(trial, repetition=2) for trial in trials[::REPEATED]]
    generator.shuffle(trials)
    return trials


def measure(trial: Trial, workload: str, machine: str, device: torch.device) -> None:
    """Train and let the collector measure it; running out of memory is a measurement too.

    The collector leaves the count of the peak memory as it is, so it is reset here.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.set_float32_matmul_precision("high" if trial.precision == "tf32" else "highest")
    parameters = asdict(trial)
    for name in ("dataset_size", "batch_size", "repetition"):
        del parameters[name]
    options = {"external_id": f"{machine}/{trial}", "parameters": parameters}
    try:
        with TorchCollector(workload, quiet=True, **options) as collector:
            train(trial, collector, device)
    except torch.OutOfMemoryError:
        pass


def train(trial: Trial, collector: TorchCollector, device: torch.device) -> None:
    """Train for one epoch on random tokens."""
    torch.manual_seed(trial.repetition)
    tokens = torch.randint(VOCABULARY, (trial.dataset_size, trial.sequence_length + 1))
    loader = DataLoader(TensorDataset(tokens), trial.batch_size, shuffle=True)
    model = LanguageModel(
        trial.layers,
        trial.width,
        sequence_length=trial.sequence_length,
        vocabulary=VOCABULARY,
        recomputes=trial.recomputed == "blocks",
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=device.type == "cuda")
    for (batch,) in collector.watch(loader):
        sequences = batch.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=trial.precision == "bf16"):
            scores = model(sequences[:, :-1])
            loss = torch.nn.functional.cross_entropy(
                scores.flatten(0, 1), sequences[:, 1:].flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    """Measure until everything is measured or the budget is used up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="language-model")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--machine", default="gpu", help="first part of the runs' identifiers")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--fraction", type=float, default=1.0, help="less work, to try the script")
    parser.add_argument("--seconds-budget", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    for trial in plan(arguments.trials, arguments.seed, arguments.fraction):
        elapsed = time.monotonic() - began
        if elapsed > arguments.seconds_budget:
            break
        print(f"{elapsed:6.1f} s {trial}", file=sys.stderr, flush=True)
        measure(trial, arguments.workload, arguments.machine, arguments.device)


if __name__ == "__main__":
    main()
