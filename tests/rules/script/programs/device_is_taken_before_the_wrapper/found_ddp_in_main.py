import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Net().cuda())  # found: DIST003
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


main()
