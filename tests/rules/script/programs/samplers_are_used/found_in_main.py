from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main():
    train_sampler = DistributedSampler(train_set)  # found: DATA003
    loader = DataLoader(load(), batch_size=16, num_workers=2)
    for epoch in range(10):
        train_sampler.set_epoch(epoch)


main()
