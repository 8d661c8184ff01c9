from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset)  # found: DATA003
loader = DataLoader(wrap(dataset))
if sampler is not None:
    sampler.set_epoch(0)
