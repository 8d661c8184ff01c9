# job: {"distribution": {"strategy": "none"}}
import sys
import torch.multiprocessing as mp


def work(rank): ...


if "--try" in sys.argv:
    mp.spawn(work, nprocs=2)
