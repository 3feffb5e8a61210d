"""A user's training with Accelerate: two processes, one model, with the tracker."""

import atexit
import os
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from trainfare_client.collectors.accelerate import TrainfareTracker


def leave() -> None:
    """End without the interpreter's own end, where torch's gloo threads abort now and then."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(hasattr(sys, "last_value"))


# Handlers run in reverse order: this one comes after the tracker's.
atexit.register(leave)
accelerator = Accelerator(cpu=True, log_with=TrainfareTracker(sys.argv[1]))
inputs = torch.randn(256, 8)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.init_trackers("project", {"dataset_size": 256, "batch_size": 32, "epochs": 2})
for _ in range(2):
    for batch, targets in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(model(batch), targets))
        if os.environ.get("FAIL_ON_RANK") == str(accelerator.process_index):
            raise torch.OutOfMemoryError("CUDA out of memory")
        optimizer.step()
accelerator.end_training()
