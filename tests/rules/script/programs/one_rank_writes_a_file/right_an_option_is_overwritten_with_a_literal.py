import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=-1)
args = parser.parse_args()
if "RANK" not in os.environ and args.rank == -1:
    args.rank = 0
dist.init_process_group("nccl")
if args.rank == 0:
    torch.save({}, "model.pt")
