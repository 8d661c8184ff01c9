from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 32, drop_last=True))
