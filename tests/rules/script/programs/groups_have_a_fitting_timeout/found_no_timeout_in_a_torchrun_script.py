import torch
import torch.distributed as dist

dist.init_process_group("nccl")  # found: DDP005
torch.cuda.set_device(dist.get_node_local_rank())
