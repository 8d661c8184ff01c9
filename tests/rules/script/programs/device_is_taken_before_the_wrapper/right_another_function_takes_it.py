import os
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def main():
    setup()
    model = FSDP(Net())


main()
