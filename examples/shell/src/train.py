"""Train a small network on prepared digits, in one process."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--model", type=Path, required=True)
arguments = parser.parse_args()

torch.manual_seed(0)
images, labels = torch.load(arguments.data, weights_only=True)
training, held_out = torch.arange(len(labels)) % 5 > 0, torch.arange(len(labels)) % 5 == 0
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(40):
    loss = nn.functional.cross_entropy(model(images[training]), labels[training])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch={epoch + 1} loss={loss.item():.4f}", flush=True)
with torch.no_grad():
    right = (model(images[held_out]).argmax(dim=1) == labels[held_out]).float().mean()
print(f"accuracy={right:.4f}", flush=True)
torch.save(model.state_dict(), arguments.model)
