"""How many megabytes of logs `launch diagnose` reads in a second of the processor's time, in how much memory.

    python -m tools.benchmarks diagnosis [--megabytes 500] [--nvrx PYTHON]

Logs of 64 hosts that are healthy but for one failure at their end, and storms: 200,000 NCCL errors of 512
ranks; 20,000 tracebacks of one rank, of 512 ranks mixed line by line in one file, and of 512 ranks in 64
files. They are written with fixed seeds into a temporary folder and read from there as `--log` reads them,
each in processes of their own, without the time that importing takes, the least of three. Beside it
`grep -i -F -f` of the same literals counts lines, which is the least that such a search must do, and with
`--nvrx` the deterministic layer of nvidia-resiliency-ext's restart agent reads the first 2 MB. Bounds:
300 MB a second, 50 in storms, 100 MB of memory, and of five times the logs no more than a tenth more memory.
Of each rank's first traceback every line is read, and of each text its first line: where these are many, and
in many files, less is left to leave out.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.match.prefilter import distinct
from launcher.diagnosis.signs.reader import SOUGHT_LITERALS
from launcher.session.log_files import logs_in
from tools.benchmarks.measuring import Figure, run_process

HOSTS, RANKS, TRACEBACKS, ERRORS = 64, 512, 20_000, 200_000
HEALTHY, STORM, MEMORY, GROWTH = 300.0, 50.0, 100.0, 1.1
_RUNS = 3
CULPRIT, ASKED_FOR = 131, "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 3"
STACK = (
    ("/opt/ml/code/train.py", 210, "<module>", "main()"),
    ("/opt/ml/code/train.py", 188, "main", "train_one_epoch(model, loader, optimizer)"),
    ("/opt/ml/code/train.py", 88, "train_one_epoch", "loss = model(batch.to(device)).mean()"),
    ("/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", 1736, "_wrapped_call_impl", "..."),
    ("/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", 1747, "_call_impl", "..."),
    ("/opt/conda/lib/python3.11/site-packages/torch/nn/parallel/distributed.py", 1643, "forward", "..."),
    ("/opt/ml/code/model.py", 61, "forward", "return self.head(self.body(x))"),
)


@dataclass(frozen=True)
class Measured:
    """Processor time in seconds, the highest memory in MB, and the root cause that was found."""

    seconds: float
    memory: float
    code: str | None
    rank: int | None


def healthy(folder: Path, megabytes: int) -> None:
    """A file for each host: NCCL's start, steps, now and then a checkpoint, at last a failure."""
    each = megabytes * 1_000_000 // HOSTS
    for host in range(1, HOSTS + 1):
        size = number = 0
        lines: list[str] = []
        while size < each:
            lines.append(_healthy_line(number, host))
            size += len(lines[-1]) + 1
            number += 1
        if host == CULPRIT // 8 + 1:
            lines.append(f"[rank{CULPRIT}]: torch.OutOfMemoryError: {ASKED_FOR}")
        lines.append(f"algo-{host}:77:79 [3] misc/socket.cc:49 NCCL WARN Connection closed by remote peer")
        _write(folder / f"algo-{host}.log", lines)


def _healthy_line(number: int, host: int) -> str:
    if number < 500:
        return f"algo-{host}:126:199 [5] NCCL INFO Channel {number:02}/0 : 5[5] -> 6[6] via P2P/CUMEM/read"
    if number % 1000 == 0:
        return f"[rank{host * 8}]: INFO Saving checkpoint of step {number} to /opt/ml/checkpoints"
    return (
        f"[1,{host * 8}]<stdout>:2026-08-20 11:30:44,123 INFO step {number} loss: 2.{number % 997:03} "
        f"lr 1.0e-04 tokens/s 81234.5 memory 71.3 GiB"
    )


def nccl_errors(folder: Path, texts: int) -> None:
    """Lines of NCCL and of PyTorch in turn, of so many texts, each of any rank and of numbers as wide as they
    come."""
    chance = random.Random(1)
    _write(folder / "all.log", (_nccl_error(number, chance)[number % texts] for number in range(ERRORS)))


def _nccl_error(number: int, chance: random.Random) -> tuple[str, ...]:
    rank = chance.randrange(RANKS)
    host, device, seconds = rank // 8 + 1, rank % 8, number // 100
    nccl = f"algo-{host}:{77 + device}:{chance.randrange(90, 2000)} [{device}]"
    time = f"2026-08-20 11:{seconds // 60 % 60:02}:{seconds % 60:02},{number % 1000:03}"
    return (
        f"{nccl} misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
        f"ip-10-0-{host}-{device}.ec2<{40000 + rank}>",
        f"[rank{rank}]: {time} torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, "
        "remote process exited or there was a network error, NCCL version 2.21.5 ncclRemoteError",
        f"{nccl} NCCL WARN Call to recv from 10.0.{host}.{device}<{40000 + rank}> failed : Connection reset "
        "by peer",
        f"{nccl} NCCL INFO comm 0x{chance.getrandbits(46):x} rank {rank} nranks {RANKS} cudaDev {device} "
        f"busId {device}000 - Abort COMPLETE",
        f"[rank{rank}]: RuntimeError: NCCL communicator was aborted on rank {rank}. Original reason for "
        "failure was: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4000, "
        f"OpType=ALLREDUCE, Timeout(ms)=600000) ran for {600000 + number % 2000} milliseconds before timing "
        "out.",
    )


def tracebacks(folder: Path, files: int, ranks: int) -> None:
    """Tracebacks of 16 lines; in each file those of its ranks are mixed line by line."""
    for file in range(files):
        each = ranks // files
        mixed = _mixed(random.Random(file), range(file * each, (file + 1) * each), TRACEBACKS // files)
        _write(folder / f"algo-{file + 1}.log", mixed)


def _mixed(chance: random.Random, ranks: Iterable[int], count: int) -> Iterator[str]:
    under_way: dict[int, list[str]] = {rank: [] for rank in ranks}
    waiting = list(under_way)
    while waiting:
        place = chance.randrange(len(waiting))
        lines = under_way[waiting[place]]
        if not lines:
            if not count:
                waiting.pop(place)
                continue
            lines += reversed(_traceback(f"[rank{waiting[place]}]: ", count))
            count -= 1
        yield lines.pop()


def _traceback(prefix: str, number: int) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for file, line, function, source in STACK:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {source}"]
    return [prefix + line for line in (*lines, f"ValueError: bad value {number}")]


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def diagnosed(folder: Path) -> Measured:
    """The diagnosis of a folder, in this process."""
    start = time.process_time()
    logs = logs_in([folder])
    root = diagnose(logs.records, streams=logs.streams).root_cause
    seconds = time.process_time() - start
    # What getrusage tells has the starting process in it.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    memory = int(status["VmHWM"].split()[0]) / 1000
    return Measured(seconds, memory, root.finding.code if root else None, root.rank if root else None)


def in_a_process(folder: Path) -> Measured:
    """The same in a process of its own, so that its memory is that of this folder; the least of three, as
    other guests of the machine take caches and clock."""
    command = [sys.executable, "-m", "tools.benchmarks.diagnosis", folder]
    runs = [run_process(command).printed for _ in range(_RUNS)]
    return min((Measured(**json.loads(run)) for run in runs), key=lambda each: each.seconds)


def searched(folder: Path, literals: Path) -> float:
    """Processor time of grep over the same files, in seconds, the least of three."""
    command = ["grep", "-c", "-i", "-F", "-f", literals, "-r", folder]
    return min(run_process(command, environment={"LC_ALL": "C"}).processor for _ in range(_RUNS))


def read_by_nvrx(python: Path, folder: Path, copy: Path) -> float:
    """Megabytes that nvidia-resiliency-ext reads in a second of processor time. No wheel has its restart
    agent: `python` is one that finds it, by PYTHONPATH in the sources."""
    with min(folder.iterdir()).open("rb") as file:
        copy.write_bytes(file.read(_MOST_OF_NVRX))
    return copy.stat().st_size / 1e6 / float(run_process([python, "-c", _NVRX, copy]).printed)


_MOST_OF_NVRX = 2_000_000
_NVRX = """
import sys, time
from nvidia_resiliency_ext.attribution.restart_agent.l0.assembly import build_l0_bundle
start = time.process_time()
build_l0_bundle(sys.argv[1])
print(time.process_time() - start)
"""


def add_options(parser: ArgumentParser) -> None:
    """What is measured."""
    parser.add_argument("--megabytes", type=int, default=500, help="how much of the healthy logs")
    parser.add_argument("--nvrx", type=Path, help="a Python that imports nvidia_resiliency_ext.attribution")


def figures(folder: Path, megabytes: int, nvrx: Path | None) -> Iterator[Figure]:
    """Two for each kind of log, and by how much more memory is needed for more logs."""
    kinds: list[tuple[str, Callable[[Path], None], float, tuple[str, int | None]]] = [
        *(
            (f"{size} MB of healthy hosts", partial(healthy, megabytes=size), HEALTHY, ("MEM001", CULPRIT))
            for size in (megabytes // 5, megabytes)
        ),
        ("NCCL errors of 512 ranks", partial(nccl_errors, texts=2), STORM, ("NCCL006", None)),
        ("the same of five texts", partial(nccl_errors, texts=5), STORM, ("NCCL004", None)),
        ("tracebacks of a rank", partial(tracebacks, files=1, ranks=1), STORM, ("CODE001", 0)),
        (
            "tracebacks of 512 ranks, mixed",
            partial(tracebacks, files=1, ranks=RANKS),
            STORM,
            ("CODE001", None),
        ),
        (
            "tracebacks of 512 ranks, 64 files",
            partial(tracebacks, files=HOSTS, ranks=RANKS),
            STORM,
            ("CODE001", None),
        ),
    ]
    memory = []
    for name, make, bound, wanted in kinds:
        logs, literals = folder / name, folder / "literals"
        logs.mkdir()
        make(logs)
        literals.write_bytes(b"\n".join(distinct(SOUGHT_LITERALS)) + b"\n")
        size = sum(file.stat().st_size for file in logs.iterdir()) / 1e6
        own = in_a_process(logs)
        assert (own.code, own.rank) == wanted, (
            f"{name}: {own.code} of rank {own.rank} was found, not {wanted}"
        )
        memory.append(own.memory)
        beside = f"{size:.0f} MB in {own.seconds:.2f} s; grep {size / searched(logs, literals):.0f}"
        if nvrx is not None:
            beside += f", nvidia-resiliency-ext {read_by_nvrx(nvrx, logs, folder / 'beginning'):.1f}"
        yield Figure(name, size / own.seconds, bound, " MB/s", f"{beside} MB/s", at_least=True)
        yield Figure(f"{name}, memory", own.memory, MEMORY, " MB")
        shutil.rmtree(logs)
    yield Figure("memory of five times the logs, the ratio", memory[1] / memory[0], GROWTH)


if __name__ == "__main__":
    print(json.dumps(vars(diagnosed(Path(sys.argv[1])))))
