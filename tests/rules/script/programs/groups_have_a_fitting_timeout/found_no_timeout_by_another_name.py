from torch.distributed import init_process_group as start

start("nccl", device_id=device)  # found: DDP005
