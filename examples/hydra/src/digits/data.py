"""The handwritten digits of scikit-learn, as tensors."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset


def digits() -> TensorDataset:
    """Images (8 x 8, from 0 to 1) and labels."""
    found = load_digits()
    return TensorDataset(torch.tensor(found.images, dtype=torch.float32) / 16, torch.tensor(found.target))
