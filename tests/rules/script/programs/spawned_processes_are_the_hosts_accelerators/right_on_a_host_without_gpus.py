# job: {"distribution": {"strategy": "none"}, "resources": {"instance_type": "ml.c5.18xlarge", "instance_count": 1}}
import torch.multiprocessing as mp


def work(rank): ...


mp.spawn(work, nprocs=4)
