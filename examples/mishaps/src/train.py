"""A small training that one mishap befalls in its 20th step, to see what is said of it.

With Slipway:     launch examples/mishaps/job.yaml --local --set hyperparameters.kind=sleep
Without Slipway:  torchrun --nproc-per-node 4 examples/mishaps/src/train.py --kind sleep --plain
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 40
VICTIM = 2


def main() -> None:
    """Train with the mishap; for those of checkpoints, save, damage the newest and resume."""
    arguments = parse_arguments()
    dist.init_process_group("gloo", timeout=timedelta(seconds=arguments.timeout))
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(256, 256))
    saving: Saving = Plain(arguments.folder) if arguments.plain else Managed(arguments.folder)
    if arguments.kind == "module_keys":
        saving.load_wrapped(model.state_dict(), nn.Linear(256, 256))
    else:
        train(model, saving, arguments.kind)
    if arguments.kind in DAMAGES:
        resume_damaged(model, saving, DAMAGES[arguments.kind])
    report("trained")
    # DDP's reducer holds on to the group until it is collected.
    del model
    gc.collect()
    dist.destroy_process_group()


def parse_arguments() -> argparse.Namespace:
    """The kind of mishap, and how the script is saved."""
    parser = argparse.ArgumentParser(description=__doc__)
    checkpoints = [*DAMAGES, "full_disk", "module_keys"]
    parser.add_argument("--kind", choices=["none", *MISHAPS, *checkpoints], default="none")
    parser.add_argument("--plain", action="store_true", help="torch.save and torch.load, without slipway")
    parser.add_argument("--timeout", type=float, default=600, help="of the process group, in seconds")
    parser.add_argument(
        "--folder", type=Path, default=os.environ.get("SLIPWAY_CHECKPOINT_DIR", "/tmp/mishaps"),
        help="for checkpoints; for full_disk one on a small file system",
    )  # fmt: skip
    return parser.parse_args()


def train(model: nn.Module, saving: Saving, kind: str) -> None:
    """All steps, with a checkpoint after every 20."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(1, STEPS + 1):
        loss = model(torch.ones(4, 256)).square().mean()
        loss.backward()
        if step == 20 and kind in MISHAPS and MISHAPS[kind](model):
            break
        dist.all_reduce(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            saving.save(step, model)
    dist.barrier()
    saving.wait()


def sleep(_: nn.Module) -> None:
    """One rank does not come."""
    if dist.get_rank() == VICTIM:
        time.sleep(3600)


def stopped(_: nn.Module) -> None:
    """One rank is stopped, as by a debugger."""
    if dist.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGSTOP)


def killed(_: nn.Module) -> None:
    """One rank is killed, as by the kernel where a host runs out of memory."""
    if dist.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)


def extra_collective(_: nn.Module) -> None:
    """One rank calls a collective that the others do not."""
    if dist.get_rank() == VICTIM:
        dist.broadcast(torch.zeros(3), src=VICTIM)  # slipway: ignore[DDP004] the mishap is meant


def saved_alone(_: nn.Module) -> None:
    """Rank 0 alone collects what all ranks have, in order to save it."""
    if dist.get_rank() == 0:
        save_checkpoint()  # slipway: ignore[DDP004] the mishap is meant


def save_checkpoint() -> None:
    """A save in which all ranks would have to take part."""
    parts = [torch.zeros(8) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.ones(8))


def early_end(_: nn.Module) -> bool:
    """One rank has fewer batches, and leaves the loop."""
    return dist.get_rank() == VICTIM


MISHAPS: dict[str, Callable[[nn.Module], object]] = {
    each.__name__: each for each in (sleep, stopped, killed, extra_collective, saved_alone, early_end)
}


def truncated(file: Path) -> None:
    """Half of a file, as a full disk or a lost host leaves it."""
    os.truncate(file, file.stat().st_size // 2)


def flipped_bit(file: Path) -> None:
    """One bit of a weight, as a disk or memory without correction may change it."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2 // 4 * 4 + 3] ^= 0x40
    file.write_bytes(content)


DAMAGES = {each.__name__: each for each in (truncated, flipped_bit)}


def resume_damaged(model: nn.Module, saving: Saving, damage: Callable[[Path], None]) -> None:
    """What a job finds that starts again after a file of its newest checkpoint was damaged."""
    report(f"saved, largest weight {largest(model):.3g}")
    if dist.get_rank() == 0:
        damage(saving.newest_file())
    dist.barrier()
    step = saving.resume(model)
    report(f"resumed after step {step}, largest weight {largest(model):.3g}")


def largest(model: nn.Module) -> float:
    """The largest weight there is."""
    return max(each.abs().max().item() for each in model.parameters())


class Plain:
    """Checkpoints by torch.save on rank 0, as most scripts write them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, model: nn.Module) -> None:
        if dist.get_rank() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save({"step": step, "model": model.module.state_dict()}, self.folder / f"{step:06d}.pt")

    def wait(self) -> None:
        dist.barrier()

    def newest_file(self) -> Path:
        return max(self.folder.glob("*.pt"))

    def resume(self, model: nn.Module) -> int:
        state = torch.load(self.newest_file(), weights_only=True)
        model.module.load_state_dict(state["model"])
        return int(state["step"])

    def load_wrapped(self, state: dict[str, torch.Tensor], model: nn.Module) -> None:
        model.load_state_dict(state)  # slipway: ignore[CKPT005] the mishap is meant


class Managed:
    """Checkpoints by slipway.CheckpointManager."""

    def __init__(self, folder: Path) -> None:
        import slipway

        self._slipway = slipway
        self._manager = slipway.CheckpointManager(folder)

    def save(self, step: int, model: nn.Module) -> None:
        self._manager.save(step, model=model)

    def wait(self) -> None:
        self._manager.wait()

    def newest_file(self) -> Path:
        newest = max(self._manager.folder.glob("step-*"))
        return max(newest.rglob("*.pt"), key=lambda file: file.stat().st_size)

    def resume(self, model: nn.Module) -> int:
        # As a job that starts again: another manager.
        resumed = self._slipway.CheckpointManager(self._manager.folder).resume(model=model)
        assert resumed is not None
        return resumed.step

    def load_wrapped(self, state: dict[str, torch.Tensor], model: nn.Module) -> None:
        self._slipway.load_state(model, state)
        report(f"loaded {len(state)} tensors, as {', '.join(state)}")


Saving = Plain | Managed


def report(text: str) -> None:
    """Print on one rank only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
