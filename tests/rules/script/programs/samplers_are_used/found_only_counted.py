from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset) if distributed else None  # found: DATA003
loader = DataLoader(wrap(dataset), shuffle=True)
print(len(sampler))
