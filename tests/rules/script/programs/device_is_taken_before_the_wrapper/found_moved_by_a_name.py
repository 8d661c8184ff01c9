import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = Net().to("cuda")
model = DDP(model)  # found: DIST003
torch.cuda.set_device(dist.get_node_local_rank())
