# job: {"distribution": {"strategy": "none"}}
from torch.multiprocessing import spawn

GPUS = 4


def work(rank): ...


spawn(work, nprocs=GPUS)  # found: DIST001
