import torch.distributed as dist


def main():
    dist.init_process_group("nccl", timeout=limit)  # found: DDP006
    train()


if __name__ == "__main__":
    main()
