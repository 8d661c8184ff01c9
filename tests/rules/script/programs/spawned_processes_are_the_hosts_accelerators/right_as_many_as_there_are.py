# job: {"distribution": {"strategy": "none"}}
import torch
import torch.multiprocessing as mp


def work(rank): ...


count = torch.cuda.device_count()
mp.spawn(work, nprocs=count)
