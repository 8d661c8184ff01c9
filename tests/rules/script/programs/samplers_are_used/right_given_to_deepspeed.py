import deepspeed
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset)
engine, _, _, _ = deepspeed.initialize(model=model)
loader = engine.deepspeed_io(dataset, data_sampler=sampler)
evaluation = DataLoader(held_out)
