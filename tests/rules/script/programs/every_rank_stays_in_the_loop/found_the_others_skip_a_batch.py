import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

rank = int(os.environ["RANK"])
model = DDP(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for batch in loader:
        if rank != 0 and batch is None:
            continue  # found: DDP004
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()


train()
