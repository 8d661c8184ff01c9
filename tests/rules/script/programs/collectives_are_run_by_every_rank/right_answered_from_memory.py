import functools

import torch
import torch.distributed as dist

dist.init_process_group("nccl")


@functools.cache
def score(point):
    value = torch.tensor(point)
    dist.all_reduce(value)
    return value.item()


best = max(range(10), key=score)
if dist.get_rank() == 0:
    print(best, score(best))
