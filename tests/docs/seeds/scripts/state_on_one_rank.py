"""An SMP script that collects the whole state on one rank alone."""

import smdistributed.modelparallel.torch as smp
import torch

smp.init()
model = smp.DistributedModel(torch.nn.Linear(8, 8))
optimizer = smp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
if smp.rank() == 0:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "all.pt")
