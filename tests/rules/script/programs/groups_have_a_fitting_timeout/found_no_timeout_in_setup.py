import torch.distributed as dist


def setup():
    dist.init_process_group(backend="nccl", init_method="env://")  # found: DDP005


setup()
