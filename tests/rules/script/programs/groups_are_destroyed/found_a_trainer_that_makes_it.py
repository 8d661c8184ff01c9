from torch.distributed import init_process_group


class Trainer:
    def __init__(self):
        init_process_group(backend="nccl")  # found: DDP006

    def fit(self): ...


Trainer().fit()
