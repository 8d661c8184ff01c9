import smdistributed.modelparallel.torch as smp
from torch.utils.data import DistributedSampler

smp.init()
sampler = DistributedSampler(dataset, num_replicas=smp.dp_size(), rank=smp.dp_rank())
