# job: {"distribution": {"strategy": "none"}}
import sys
import torch.multiprocessing as mp


def work(rank): ...


mp.spawn(work, nprocs=int(sys.argv[1]))
