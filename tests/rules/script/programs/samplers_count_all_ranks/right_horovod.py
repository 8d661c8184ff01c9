import horovod.torch as hvd
from torch.utils.data import DistributedSampler

hvd.init()
sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
