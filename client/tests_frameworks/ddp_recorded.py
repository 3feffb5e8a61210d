"""A user's training: two processes, one model, with the collector."""

import os
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from trainfare_client.collectors.torch import TorchCollector

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1)
inputs = torch.randn(256, 16)
dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
sampler = DistributedSampler(dataset, seed=1)
loader = DataLoader(dataset, batch_size=16, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
collector = TorchCollector(sys.argv[1], model=model)
loader = collector.watch(loader)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), targets).backward()
        if os.environ.get("FAIL_ON_RANK") == str(rank):
            raise torch.OutOfMemoryError("CUDA out of memory")
        optimizer.step()
collector.finish()
weight = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
sys.stdout.write(f"rank {rank} trained to {weight:.12f}\n")
sys.stdout.flush()
# torch's gloo threads abort now and then while the interpreter ends ("terminate called"), with
# the collector or without: the ranks wait for each other, let go, and end without that.
torch.distributed.barrier()
del model, optimizer
torch.distributed.destroy_process_group()
os._exit(0)
