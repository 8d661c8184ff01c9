import argparse
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--world-size", type=int, default=8)
args = parser.parse_args()
dist.init_process_group("nccl", world_size=args.world_size, rank=0)
