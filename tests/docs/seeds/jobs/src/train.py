"""A script that the job files beside it name; the seeds' page judges the jobs, and runs none of them."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--num_workers", type=int, default=4)


def _mp_fn(index: int) -> None:
    """What Training Compiler's launcher calls on each worker."""
    print(index, parser.parse_args())


if __name__ == "__main__":
    _mp_fn(0)
