import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("nccl")
model = FullyShardedDataParallel(Net(), use_orig_params=True)  # found: DIST003
optimizer = torch.optim.AdamW(model.parameters())
torch.cuda.set_device(f"cuda:{dist.get_node_local_rank()}")
loader = make_loader()
