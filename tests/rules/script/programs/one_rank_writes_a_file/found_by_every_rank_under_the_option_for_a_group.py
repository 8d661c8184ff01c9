import argparse

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--standalone", action="store_true")
args = parser.parse_args()
if not args.standalone:
    dist.init_process_group("gloo")
state = torch.nn.Linear(2, 2).state_dict()
if not args.standalone:
    torch.save(state, "model.pt")  # found: CKPT008
