from torch.utils.data import DataLoader, DistributedSampler

train = DataLoader(dataset, sampler=DistributedSampler(dataset))
preview = DataLoader(dataset, shuffle=True)
