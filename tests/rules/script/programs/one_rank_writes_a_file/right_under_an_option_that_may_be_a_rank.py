import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int)
args = parser.parse_args()
dist.init_process_group("nccl")
if args.gpu == 0:
    torch.save({}, "model.pt")
