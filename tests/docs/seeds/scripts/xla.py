"""Training Compiler without what it asks for."""

import torch
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

device = xm.xla_device()
model = torch.nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in DataLoader(TensorDataset(torch.zeros(64, 2)), batch_size=8):
    loss = model(batch.to(device)).sum()
    loss.backward()
    optimizer.step()
    print(loss)
