import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(loader):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and loss.item() < 0.1:
        break  # found: DDP004
