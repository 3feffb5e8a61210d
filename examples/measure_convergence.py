"""Measure how many samples a small language model needs for a target loss at several batch sizes.

The text is the source code of Python's standard library, as bytes. For each batch size, all
learning rates and seeds are trained at once; the best learning rate of each seed counts, as a user
tunes it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from language_model import LanguageModel
from torch import Tensor
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

BYTES = 256
SEQUENCE_LENGTH = 64
VALIDATION_SEQUENCES = 512
REFERENCE_BATCH = 64
BETAS = (0.9, 0.99)
EVALUATIONS_PER_DOUBLING = 12
COLUMNS = (
    "layers",
    "width",
    "batch_size",
    "seed",
    "target_nats_per_byte",
    "learning_rate",
    "steps",
    "samples_to_target",
)


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes to train on, and sequences to validate on."""

    training: Tensor
    validation: Tensor


def read_text(device: torch.device) -> Text:
    """Read the standard library's sources; every twentieth file is for validation."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    held_out = set(files[::20])
    training, validation = (
        torch.frombuffer(bytearray(b"".join(f.read_bytes() for f in part)), dtype=torch.uint8)
        for part in ([f for f in files if f not in held_out], sorted(held_out))
    )
    generator = torch.Generator().manual_seed(0)
    starts = torch.randint(
        len(validation) - SEQUENCE_LENGTH - 1, (VALIDATION_SEQUENCES,), generator=generator
    )
    sequences = torch.stack([validation[s : s + SEQUENCE_LENGTH + 1] for s in starts.tolist()])
    return Text(training.to(device), sequences.long().to(device))


class Ensemble:
    """Models of one architecture that train side by side, each with its own learning rate.

    Parameters
    ----------
    learning_rates, seeds
        One of each per model.
    layers, width
        Size of each model.
    device
        Where they train.
    """

    def __init__(
        self,
        learning_rates: list[float],
        seeds: list[int],
        *,
        layers: int,
        width: int,
        device: torch.device,
    ) -> None:
        models = []
        for seed in seeds:
            torch.manual_seed(seed)
            size = {"sequence_length": SEQUENCE_LENGTH, "vocabulary": BYTES}
            models.append(LanguageModel(layers, width, **size).to(device))
        self._template = LanguageModel(layers, width, **size).to("meta")
        self._weights, _ = stack_module_state(models)
        self._weights = {name: weight.detach() for name, weight in self._weights.items()}
        self._means = {name: torch.zeros_like(w) for name, w in self._weights.items()}
        self._squares = {name: torch.zeros_like(w) for name, w in self._weights.items()}
        self._rates = torch.tensor(learning_rates, device=device)
        self._n_steps = 0
        self._gradient = vmap(grad_and_value(self._loss))

    def _loss(self, weights: dict[str, Tensor], sequences: Tensor) -> Tensor:
        scores = functional_call(self._template, weights, (sequences[:, :-1],))
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), sequences[:, 1:].flatten())

    def step(self, sequences: Tensor) -> None:
        """Take one step of Adam (Kingma and Ba 2015), shape (models, batch, sequence + 1)."""
        gradients, _ = self._gradient(self._weights, sequences)
        self._n_steps += 1
        # The first steps are shorter, so that large rates do not diverge at once.
        warm = min(1.0, self._n_steps / 50)
        corrections = [1.0 - beta**self._n_steps for beta in BETAS]
        for name, weight in self._weights.items():
            gradient = gradients[name]
            self._means[name].lerp_(gradient, 1.0 - BETAS[0])
            self._squares[name].lerp_(gradient.square(), 1.0 - BETAS[1])
            scale = (self._squares[name] / corrections[1]).sqrt_().add_(1e-8)
            rates = self._rates.reshape(-1, *[1] * (weight.ndim - 1)) * (warm / corrections[0])
            weight.sub_(rates * self._means[name] / scale)

    @torch.no_grad()
    def losses(self, sequences: Tensor) -> Tensor:
        """Return each model's loss on the same sequences, shape (models,)."""
        return vmap(self._loss, in_dims=(0, None))(self._weights, sequences)


def draw(text: Text, seeds: list[int], batch_size: int, step: int) -> Tensor:
    """Return a batch per model, the same for models of the same seed."""
    device = text.training.device
    batches = {}
    for seed in set(seeds):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        size = (batch_size, 1)
        starts = torch.randint(len(text.training) - SEQUENCE_LENGTH - 1, size, generator=generator)
        places = starts.to(device) + torch.arange(SEQUENCE_LENGTH + 1, device=device)
        batches[seed] = text.training[places].long()
    return torch.stack([batches[seed] for seed in seeds])


def steps_to_targets(
    text: Text, batch_size: int, arguments: argparse.Namespace
) -> dict[tuple[int, float], tuple[float, float]]:
    """Train until each seed's best rate has reached all targets, or the steps are used up.

    Returns the learning rate and the steps for each seed and target that was reached.
    """
    scale = math.sqrt(batch_size / REFERENCE_BATCH)
    pairs = [(rate * scale, seed) for seed in range(arguments.seeds) for rate in arguments.rates]
    rates, seeds = [rate for rate, _ in pairs], [seed for _, seed in pairs]
    ensemble = Ensemble(
        rates, seeds, layers=arguments.layers, width=arguments.width, device=text.training.device
    )
    reached: dict[tuple[int, float], tuple[float, float]] = {}
    previous, previous_step, next_step = ensemble.losses(text.validation).tolist(), 0, 8.0
    for step in range(1, arguments.max_steps + 1):
        ensemble.step(draw(text, seeds, batch_size, step))
        if step < next_step:
            continue
        losses = ensemble.losses(text.validation).tolist()
        for (rate, seed), before, now in zip(pairs, previous, losses, strict=True):
            for target in arguments.targets:
                if before > target >= now:
                    share = (before - target) / (before - now)
                    crossing = previous_step + share * (step - previous_step)
                    if crossing < reached.get((seed, target), (0.0, math.inf))[1]:
                        reached[seed, target] = rate, crossing
        if len(reached) == arguments.seeds * len(arguments.targets):
            break
        previous, previous_step = losses, step
        next_step = step * 2.0 ** (1.0 / EVALUATIONS_PER_DOUBLING)
    return reached


def main() -> None:
    """Measure every batch size, from the largest to the smallest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="CSV file")
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[512, 256, 128, 64, 32, 16, 8, 4]
    )
    parser.add_argument("--targets", type=float, nargs="+", default=[2.4, 2.1, 1.8])
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3, 4e-3, 8e-3])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--max-steps", type=int, default=20000)
    parser.add_argument("--seconds-budget", type=float, default=180.0)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    text = read_text(arguments.device)
    began = time.monotonic()
    # Other kernels of attention know no further axis for the models.
    with arguments.out.open("w", newline="") as file, sdpa_kernel(SDPBackend.MATH):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for batch_size in arguments.batch_sizes:
            elapsed = time.monotonic() - began
            if elapsed > arguments.seconds_budget:
                break
            print(f"{elapsed:6.1f} s, batches of {batch_size}", file=sys.stderr, flush=True)
            reached = steps_to_targets(text, batch_size, arguments)
            for (seed, target), (rate, steps) in reached.items():
                model = arguments.layers, arguments.width, batch_size, seed
                found = f"{rate:.6g}", round(steps, 1), round(steps * batch_size)
                writer.writerow((*model, target, *found))
            file.flush()


if __name__ == "__main__":
    main()
