"""The data parallel guide's way of taking a prefix off."""

import torch

state_dict = torch.load("model.pt")
state_dict = {k.partition("model.")[2]: state_dict[k] for k in state_dict.keys()}
