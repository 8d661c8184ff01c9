from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset)
options = {"sampler": sampler, "num_workers": 4}
loader = DataLoader(dataset, **options)
