"""The faults that `tools/attack/real_ranks/faults.py` injects into real jobs, and what the diagnosis is to
say of each."""

from __future__ import annotations

from dataclasses import dataclass

SCRIPT = """
import argparse, atexit, ctypes, datetime, mmap, os, resource, signal, socket, sys, time, traceback
{first}
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SECOND_HOST = os.environ["SM_CURRENT_HOST"] == "algo-2"
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


class Samples(Dataset):
    def __init__(self, damaged=None, deadly=None):
        self.damaged, self.deadly = damaged, deadly

    def __len__(self):
        return 64

    def __getitem__(self, index):
        sample = {"input": torch.ones(16), "label": torch.ones(1)}
        if index == self.damaged:
            del sample["label"]
        if index == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample["input"], sample["label"]


def save_checkpoint():
    gathered = [torch.zeros(8) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(8))


def fault(step):
{fault}


def main():
    model = torch.nn.Linear(16, 1)
{before}
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, {steps}):
        if fault(step):
            break
        inputs = torch.ones(4, 16, dtype=model.module.weight.dtype)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
{after}
    dist.barrier()
    dist.destroy_process_group()


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=25))
rank = dist.get_rank()
pair = dist.new_group([1, 2])
main()
"""
"""A training of 40 steps as people write it; it knows nothing of slipway."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong in the script, and the answers that are right.

    `at` runs before every step, `first` before torch is imported, `before` and `after` before and after the
    steps. `codes` are the failure modes that name it, `ranks` the ranks that may be named, None among them
    where nothing has to show one. `host` is the host that must be named, where that is more than the rank.
    """

    name: str
    codes: tuple[str, ...]
    ranks: tuple[int | None, ...]
    at: str = "pass"
    first: str = ""
    before: str = "pass"
    after: str = "pass"
    host: str | None = None
    steps: int = 40
    restarts: int = 0

    @property
    def script(self) -> str:
        """The whole script."""
        parts = {"fault": (self.at, 1), "before": (self.before, 1), "after": (self.after, 1)}
        text = SCRIPT.replace("{first}", self.first).replace("{steps}", str(self.steps + 1))
        for name, (body, depth) in parts.items():
            indented = "\n".join("    " * depth + line for line in body.splitlines())
            text = text.replace(f"{{{name}}}", indented)
        return text


def _once(rank: int, deed: str, step: int = 20) -> str:
    return f"if rank == {rank} and step == {step}:\n    {deed}"


FAULTS = (
    Fault("exception", ("CODE001",), (2,), _once(2, "raise ValueError(f'no label for {step}')")),
    Fault(
        "key missing in a loader's worker",
        ("CODE001",),
        (1,),
        _once(1, "list(DataLoader(Samples(damaged=13), batch_size=4, num_workers=2))"),
    ),
    Fault(
        "loader's worker killed",
        ("MEM002",),
        (2,),
        _once(2, "list(DataLoader(Samples(deadly=13), batch_size=4, num_workers=2))"),
    ),
    Fault(
        "loader's worker that cannot be pickled",
        ("CODE001",),
        (3,),
        _once(
            3,
            "list(DataLoader(Samples(), collate_fn=lambda each: each, num_workers=1, "
            "multiprocessing_context='spawn'))",
        ),
    ),
    Fault("killed", ("MEM002",), (2,), _once(2, "os.kill(os.getpid(), signal.SIGKILL)")),
    Fault("segmentation fault", ("CODE004",), (3,), _once(3, "ctypes.string_at(0)")),
    Fault("abort", ("CODE004",), (1,), _once(1, "os.abort()")),
    Fault(
        "bus error",
        ("CODE004",),
        (2,),
        _once(
            2,
            "file = open('mapped', 'w+b')\n"
            "    file.truncate(1 << 16)\n"
            "    mapped = mmap.mmap(file.fileno(), 1 << 16)\n"
            "    file.truncate(0)\n"
            "    mapped[5000]",
        ),
    ),
    Fault("sys.exit", ("CODE001",), (2,), _once(2, "sys.exit(3)")),
    Fault("os._exit", ("CODE001",), (0,), _once(0, "os._exit(7)")),
    Fault("sleep", ("NCCL004",), (2,), _once(2, "time.sleep(600)")),
    Fault("endless loop", ("NCCL004",), (3,), _once(3, "while True: pass")),
    Fault("stopped", ("NCCL004",), (1,), _once(1, "os.kill(os.getpid(), signal.SIGSTOP)")),
    Fault("one collective more", ("NCCL004",), (2, None), _once(2, "dist.all_reduce(torch.ones(3))")),
    Fault(
        "another size",
        ("NCCL004",),
        (1, None),
        "dist.all_reduce(torch.ones(5000 if rank == 1 and step == 20 else 16))",
    ),
    Fault("early end of the loop", ("DATA001", "NCCL004"), (2,), "return rank == 2 and step == 20"),
    Fault("rank 0 saves alone", ("CKPT003",), (0,), _once(0, "save_checkpoint()")),
    Fault(
        "group of two, one missing",
        ("NCCL004",),
        # The two wait for each other in two groups: which one is wrong is not to be seen.
        (1, None),
        "if rank == 2 or (rank == 1 and step != 20):\n    dist.all_reduce(torch.ones(8), group=pair)",
    ),
    Fault(
        "another shape under DDP",
        ("CODE001", "NCCL004"),
        (3, None),
        before="if rank == 3:\n    model = torch.nn.Linear(16, 2)",
    ),
    Fault(
        "another type under DDP",
        ("CODE001", "NCCL004"),
        (2, None),
        before="if rank == 2:\n    model = model.double()",
    ),
    Fault(
        "file missing on one rank",
        ("CODE001",),
        (2,),
        _once(2, "open(f'/data/shard-{rank}.bin', 'rb')"),
    ),
    Fault(
        "file missing on one host",
        ("CODE001",),
        (2, 3, None),
        "if SECOND_HOST and step == 20:\n    open('/data/labels.csv')",
        host="algo-2",
    ),
    Fault(
        "assertion of finite numbers",
        ("CODE001", "NUM001"),
        (1,),
        _once(1, "assert torch.isfinite(torch.tensor(float('nan'))), 'the loss is nan'"),
    ),
    Fault(
        "import fails on one host",
        ("CODE005",),
        (2, 3, None),
        first="if os.environ['SM_CURRENT_HOST'] == 'algo-2':\n    import no_such_package",
        host="algo-2",
    ),
    Fault(
        "argument that the script does not accept",
        ("CODE002",),
        (0, 1, 2, 3, None),
        first="parser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int)\n"
        "parser.parse_args(['--epochs', 'many'])",
    ),
    Fault(
        "port taken",
        ("NCCL009",),
        (1,),
        _once(
            1,
            "taken = socket.create_server(('127.0.0.1', 0))\n"
            "    dist.TCPStore('127.0.0.1', taken.getsockname()[1], is_master=True)",
        ),
    ),
    Fault(
        "too many open files",
        ("DATA010",),
        (1,),
        _once(
            1,
            "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
            "    opened = [open('/dev/null') for _ in range(300)]",
        ),
    ),
    Fault(
        "memory limit",
        ("MEM002",),
        (2,),
        _once(
            2,
            "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n    torch.ones(4 << 30)",
        ),
    ),
    Fault(
        "no space for a checkpoint",
        ("DISK001",),
        (3,),
        _once(3, "torch.save(torch.ones(1 << 20), '/dev/full')"),
    ),
    Fault(
        "broken checkpoint",
        ("CKPT009",),
        (0, 1, 2, 3, None),
        before="name = f'model-{rank}.pt'\ntorch.save(model.state_dict(), name)\n"
        "os.truncate(name, 700)\nmodel.load_state_dict(torch.load(name))",
    ),
    Fault(
        "error after the training",
        ("CODE001",),
        (1,),
        after="if rank == 1:\n    raise RuntimeError('no metrics to write')",
    ),
    Fault(
        "exception survived, another one later",
        ("CODE001",),
        (3,),
        "try:\n"
        "    if rank == 1 and step == 20: raise OSError('a sample could not be read')\n"
        "except OSError:\n"
        "    traceback.print_exc()\n" + _once(3, "raise IndexError('no such class')", 120),
        steps=140,
    ),
    Fault(
        "killed, and another fault after the restart",
        ("CODE001",),
        (2,),
        "if rank == 1 and step == 20 and attempt == 0:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if rank == 2 and step == 25 and attempt == 1:\n    raise ValueError('no such column')",
        restarts=1,
    ),
)
"""Each kind of fault once."""
