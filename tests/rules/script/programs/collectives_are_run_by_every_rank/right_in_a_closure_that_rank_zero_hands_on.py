import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.LBFGS(model.parameters())


def step():
    signal = torch.zeros(1)

    def closure():
        if rank == 0:
            signal.fill_(1)
            dist.broadcast(signal, 0)
        return model(torch.ones(2)).sum()

    if rank == 0:
        optimizer.step(closure)
        signal.fill_(0)
        dist.broadcast(signal, 0)
    else:
        while True:
            dist.broadcast(signal, 0)
            if signal.item() == 0:
                break
            closure()


step()
