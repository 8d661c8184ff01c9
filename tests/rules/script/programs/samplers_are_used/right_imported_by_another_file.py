from torch.utils.data import DataLoader, DistributedSampler


class Data:
    def __init__(self, dataset):
        sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, sampler=sampler)
        self.sampler = sampler


Data(load())
