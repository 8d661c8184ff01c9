from contextlib import contextmanager

import torch.distributed as dist

dist.init_process_group("nccl")


@contextmanager
def main_process_first():
    is_main = dist.get_rank() == 0
    try:
        if not is_main:
            dist.barrier()
        yield
    finally:
        if is_main:
            dist.barrier()


with main_process_first():
    print("tokenizing")
