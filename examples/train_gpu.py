"""A typical user's training on one GPU, to demonstrate `trainfare profile`."""

from __future__ import annotations

import argparse

import torch
from families import FAMILIES, loss_of
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=sorted(FAMILIES), default="transformer")
    parser.add_argument("--samples", type=int, default=65536)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--width", type=int, default=512)
    return parser.parse_args()


def main() -> None:
    """Train in bfloat16, on the GPU if there is one."""
    arguments = read_arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    family = FAMILIES[arguments.family]
    dataset = TensorDataset(*family.generate(arguments.samples))
    model = family.build(arguments.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(arguments.epochs):
        order = BatchSampler(RandomSampler(dataset), arguments.batch_size, drop_last=False)
        for inputs, targets in DataLoader(dataset, sampler=order, batch_size=None):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = loss_of(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
