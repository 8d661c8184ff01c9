# job: {"distribution": {"strategy": "none"}}
import torch.multiprocessing as mp


def work(rank): ...


mp.spawn(work, nprocs=8)
