import torch
import torch.distributed as dist

dist.init_process_group("nccl")


def validate(model, batch, again=False):
    try:
        loss = model(batch)
    except RuntimeError:
        if again:
            raise
        return validate(model, batch, again=True)
    dist.all_reduce(loss)
    return loss


validate(torch.nn.Linear(2, 2), torch.ones(2))
