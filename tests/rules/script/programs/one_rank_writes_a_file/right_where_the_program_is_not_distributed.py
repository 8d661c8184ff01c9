import argparse

import torch
import torch.distributed as dist
from torch.nn import Linear

parser = argparse.ArgumentParser()
parser.add_argument("--multi_gpu", action="store_true")
args = parser.parse_args()
model = Linear(2, 2)
if args.multi_gpu:
    dist.init_process_group("nccl")
if not parser.parse_args().multi_gpu:
    torch.save(model.state_dict(), "model.pt")
