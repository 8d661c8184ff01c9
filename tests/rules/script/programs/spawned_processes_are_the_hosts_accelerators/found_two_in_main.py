# job: {"distribution": {"strategy": "none"}}
import torch.multiprocessing as mp


def work(rank, size): ...
def main():
    mp.spawn(work, args=(2,), nprocs=2)  # found: DIST001


if __name__ == "__main__":
    main()
