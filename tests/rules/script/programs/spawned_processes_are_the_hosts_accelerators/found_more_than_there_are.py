# job: {"distribution": {"strategy": "none"}}
import torch


def work(rank): ...


torch.multiprocessing.start_processes(work, (), 32)  # found: DIST001
