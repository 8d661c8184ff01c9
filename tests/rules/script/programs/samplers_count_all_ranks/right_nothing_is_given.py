from torch.utils.data import DistributedSampler

sampler = DistributedSampler(dataset)
