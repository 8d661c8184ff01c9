import argparse
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
args.local_rank = int(os.environ["LOCAL_RANK"])


def train(args, model, writer):
    if args.local_rank == 0 and args.global_rank <= 0:
        torch.save(model.state_dict(), "first.pt")
    if args.local_rank == 0:
        print("saving")
        if writer.is_first_host:
            torch.save(model.state_dict(), "second.pt")
    if args.local_rank == 0 and dist.get_rank() == 0:
        torch.save(model.state_dict(), "third.pt")


train(args, torch.nn.Linear(2, 2), object())
