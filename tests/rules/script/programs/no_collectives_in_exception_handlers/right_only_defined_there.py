try:
    train()
except RuntimeError:
    import torch.distributed as dist

    def wait():
        dist.barrier()

    raise
