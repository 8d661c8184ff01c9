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
    if dist.get_rank() == 0:
        torch.save(state, "model.pt")
else:
    torch.save(state, "model.pt")
