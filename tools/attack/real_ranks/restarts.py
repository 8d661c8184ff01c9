"""Jobs whose ranks end badly, each on purpose: are they started again where they should, and only there?

    python -m tools.attack.real_ranks.restarts --times 3                  # all cases
    python -m tools.attack.real_ranks.restarts killed "no progress"

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own; the script
saves every tenth of its steps with slipway.CheckpointManager. Where a job goes on, its weights at the end
must be those of an uninterrupted job. Needs torch and the standard library alone.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.attack.real_ranks.local_hosts import (
    Boots,
    failure_of,
    keep_copy,
    printed_by,
    start_boots,
)

LONGEST_SECONDS = 200.0
_WEIGHTS = re.compile(r"weights ([0-9a-f]{64})")
_RESTART = re.compile(r"^slipway: restart (\d+) of \d+: .*$", re.MULTILINE)

SCRIPT = """
import hashlib, os, signal, time
{first}
import torch
import torch.distributed as dist
import slipway

STEPS = 60
attempt = int(os.environ["SLIPWAY_ATTEMPT"])
assert attempt == int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(7)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
manager = slipway.CheckpointManager()
begin = manager.resume(model=model, optimizer=optimizer)
start = begin.step if begin else 0


def mishap(step):
{mishap}


for step in range(start, STEPS):
    mishap(step)
    torch.manual_seed(1000 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(4, 16)).pow(2).mean().backward()
    # By hand: DDP sums in another order in the first step after a start than later.
    for each in model.parameters():
        dist.all_reduce(each.grad)
    optimizer.step()
    if rank == 0:
        print(f"{time.time():.3f} attempt {attempt} step {step}", flush=True)
    if {saves} and (step + 1) % 10 == 0:
        manager.save(step + 1, model=model, optimizer=optimizer)
manager.wait()
flat = torch.cat([each.detach().flatten() for each in model.parameters()])
print("weights", hashlib.sha256(flat.numpy().tobytes()).hexdigest(), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Case:
    """A mishap of the script before a step, and what is to come of it.

    `restarts` are counted; without a `code` the job succeeds, else its failure files begin with that and
    hold `says`. `kills` names the host whose boot is killed after its first checkpoint.
    """

    name: str
    mishap: str = "pass"
    restarts: int = 0
    code: str | None = None
    says: str = ""
    first: str = ""
    saves: bool = True
    kills: int | None = None
    stops: bool = False
    allowed: int = 3


KILLED = "if rank == 3 and step == 25 and attempt == 0: os.kill(os.getpid(), signal.SIGKILL)"

CASES = (
    Case("uninterrupted"),
    Case("killed", KILLED, restarts=1),
    Case(
        "all killed",
        "if step == 35 and attempt < 2: os.kill(os.getpid(), signal.SIGKILL)",
        # The second start begins at 30, and comes no further with fewer steps.
        restarts=1,
        code="MEM002",
        says="it came no further",
    ),
    Case(
        "killed twice, further on",
        "if rank == 0 and step == (25, 45)[min(attempt, 1)] and attempt < 2:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)",
        restarts=2,
    ),
    Case(
        "the same exception",
        "if rank == 2 and step == 25 + 20 * attempt: raise ValueError(f'no. {attempt}')",
        restarts=1,
        code="CODE001",
        says="failed at train.py:",
    ),
    Case("one exception", "if rank == 2 and step == 25 and not attempt: raise OSError('once')", restarts=1),
    Case("import", first="import no_such_module", code="CODE005", says="no restarts"),
    Case(
        "stopped rank",
        "if rank == 2 and step == 25 and attempt == 0: os.kill(os.getpid(), signal.SIGSTOP)",
        restarts=1,
    ),
    Case(
        "no progress",
        "if rank == 3 and step == 25: os.kill(os.getpid(), signal.SIGKILL)",
        restarts=1,
        code="MEM002",
        says="it came no further",
        saves=False,
    ),
    Case("used up", "if rank == 3 and step == 12 * attempt + 15: os.kill(os.getpid(), signal.SIGKILL)",
         restarts=1, code="MEM002", says="1 restart was allowed", allowed=1),
    Case("boot of the second host killed", "time.sleep(0.1)", kills=2, code="", says="did not answer"),
    Case("boot of the first host killed", "time.sleep(0.1)", kills=1, code="", says="silent"),
    Case("stop while a rank is stopped", "if step == 25: time.sleep(1000)", stops=True),
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What came of one job: `wrong` is empty where all is as it should be; `seconds` are those from the last
    step before the first restart to the next one."""

    case: str
    wrong: str
    weights: str | None
    told: tuple[str, ...]
    seconds: float | None
    bare: float | None


def run(case: Case, folder: Path, weights: str | None) -> Judged:
    """One job with this mishap, to its end; `weights` are those of an uninterrupted one."""
    began, boots = time.time(), _boots(case, folder)
    until = time.monotonic() + LONGEST_SECONDS
    acted: float | None = None
    try:
        while time.monotonic() < until and any(boot.poll() is None for boot in boots.values()):
            if acted is None and (case.kills or case.stops) and " step 20\n" in printed_by(folder, 1):
                acted = time.monotonic()
                for host, boot in boots.items():
                    if case.stops:
                        boot.send_signal(signal.SIGTERM)
                    elif host == case.kills:
                        boot.kill()
                        _kill_below(folder / f"algo-{host}")
            time.sleep(0.1)
        took = time.monotonic() - acted if acted is not None else None
        return _judged(
            case, folder, {host: boot.poll() for host, boot in boots.items()}, weights, began, took
        )
    finally:
        for host, boot in boots.items():
            if boot.poll() is None:
                boot.kill()
            boot.wait()
            _kill_below(folder / f"algo-{host}")


def _judged(
    case: Case,
    folder: Path,
    codes: dict[int, int | None],
    weights: str | None,
    began: float,
    took: float | None,
) -> Judged:
    first = printed_by(folder, 1)
    wrong = []
    told = tuple(match[0] for match in _RESTART.finditer(first))
    for host, code in codes.items():
        reason = failure_of(folder, host)
        if host == case.kills:
            continue
        if case.stops:
            if code != 128 + signal.SIGTERM or reason:
                wrong.append(f"algo-{host} was stopped and ended with {code}: {reason[:200]!r}")
        elif case.code is None:
            if code != 0 or reason:
                wrong.append(f"algo-{host} ended with {code}: {reason[:200]!r}")
        elif code in (0, None) or not reason.startswith(case.code) or case.says not in reason:
            wrong.append(f"algo-{host} ended with {code}: {reason[:400]!r}")
        restarts = printed_by(folder, host).count("slipway: restart ")
        if restarts != case.restarts:
            wrong.append(f"algo-{host} tells of {restarts} restarts")
    found = _WEIGHTS.search(first)
    final = found[1] if found else None
    if case.code is None and not case.stops and (final is None or (weights is not None and final != weights)):
        wrong.append(f"the weights are {final}, not {weights}")
    steps = [(float(at), int(n)) for at, n in re.findall(r"(\d+\.\d+) attempt (\d+) step", first)]
    one = [at for at, attempt in steps if attempt == 0]
    two = [at for at, attempt in steps if attempt == 1]
    seconds = took if took is not None else (min(two) - max(one) if one and two else None)
    return Judged(case.name, "; ".join(wrong), final, told, seconds, min(one) - began if one else None)


def _kill_below(root: Path) -> None:
    """What a boot that was killed has left, as a container's end would."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"SLIPWAY_ROOT={root}\0".encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue


def _boots(case: Case, folder: Path) -> Boots:
    text = SCRIPT.replace("{first}", case.first).replace("{saves}", str(case.saves))
    script = text.replace("{mishap}", textwrap.indent(case.mishap, "    "))
    options = ["--watchdog-stall", "6", "--watchdog-first-step", "120", "--restarts", str(case.allowed)]
    return start_boots(folder, script, options)


def campaign(cases: Sequence[Case], times: int, kept: Path) -> Iterator[Judged]:
    """An uninterrupted job, then every case so many times; what went wrong is kept in a folder."""
    weights: str | None = None
    for number, case in enumerate([CASES[0], *cases * times]):
        with tempfile.TemporaryDirectory(prefix="restart-", ignore_cleanup_errors=True) as folder:
            judged = run(case, Path(folder), weights)
            if judged.wrong:
                keep_copy(Path(folder), kept / f"{case.name}-{number}")
        weights = weights or judged.weights
        yield judged


def main() -> int:
    """Run the cases that are named, or all; 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack.real_ranks.restarts")
    parser.add_argument("cases", nargs="*", help="the names of cases, or their beginnings; all without")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=Path("build/restarts"), help="for what went wrong")
    options = parser.parse_args()
    cases = [case for case in CASES[1:] if not options.cases or case.name.startswith(tuple(options.cases))]
    failed = 0
    for judged in campaign(cases, options.times, options.kept):
        failed += bool(judged.wrong)
        seconds = f", {judged.seconds:.1f} s" if judged.seconds is not None else ""
        bare = f" (a bare start: {judged.bare:.1f} s)" if judged.bare is not None else ""
        print(
            f"{judged.case}: {judged.wrong or 'right'}{seconds}{bare}", *judged.told, sep="\n  ", flush=True
        )
    print(f"{failed} wrong")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
