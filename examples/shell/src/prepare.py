"""Write the handwritten digits of scikit-learn as tensors into the file that is named."""

import sys

import torch
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
torch.save((images, torch.tensor(digits.target)), sys.argv[1])
print(f"prepared {len(images)} images")
