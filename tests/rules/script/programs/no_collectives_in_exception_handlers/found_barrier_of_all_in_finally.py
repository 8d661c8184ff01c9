import torch.distributed as dist

dist.init_process_group("nccl")


def evaluate(result):
    try:
        dist.all_reduce(result)
        if result > 0:
            dist.barrier()
    finally:
        dist.barrier()  # found: DDP008
