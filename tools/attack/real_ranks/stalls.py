"""Jobs that stall, each on purpose at one rank: does the watchdog name that rank, and no other?

    python -m tools.attack.real_ranks.stalls --times 20 --at-once 1      # `make stalls`
    python -m tools.attack.real_ranks.stalls sleep stopped --times 1

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own. Needs torch
and the standard library alone, so that it runs on any machine that has them. Also jobs that do not stall: of
them nothing may be said.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.attack.real_ranks.local_hosts import (
    await_boots,
    failure_of,
    keep_copy,
    printed_by,
    start_boots,
)

LONGEST_SECONDS = 180.0
_SAID = re.compile(
    r"^slipway: (?:warning: )?(?P<text>(?P<code>[A-Z]+\d{3}) ranks? (?P<ranks>[\d, -]+) on .*)$"
)

SCRIPT = """
import ctypes, os, signal, sys, time
import torch
import torch.distributed as dist
import slipway

dist.init_process_group("gloo")
rank = dist.get_rank()
pair = dist.new_group([1, 2])
weights = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(weights.parameters(), lr=0.01)


def save_checkpoint():
    gathered = [torch.zeros(8) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(8))


def train(steps):
    for step in range(steps):
        loss = weights(torch.ones(4, 16)).sum()
        loss.backward()
        if step == 20:
            if mishap(step):
                break
        flat = torch.zeros(4160)
        dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad()


def mishap(step):
{mishap}


train(40)
dist.barrier()
print("trained")
"""


@dataclass(frozen=True)
class Case:
    """A mishap of the script at its 20th step, and what is to be said of it: nothing without a `code`.

    `says` is part of what is said; `ends` tells whether the job ends by the verdict.
    """

    name: str
    mishap: str
    code: str | None = None
    ranks: str = "2"
    says: str = ""
    ends: bool = False
    stall: str = "6"


CASES = (
    Case("sleep", "if rank == 2: time.sleep(600)", "NCCL004", says="has not entered all_reduce #21 [4160]"),
    Case(
        "loop",
        "while rank == 2:\n    pass",
        "NCCL004",
        says="process state R",
    ),
    Case(
        "stopped",
        "if rank == 2: os.kill(os.getpid(), signal.SIGSTOP)",
        "NCCL004",
        says="process state T",
        ends=True,
    ),
    Case(
        "interpreter lock held in C",
        "if rank == 2: ctypes.PyDLL(None).sleep(600)",
        "NCCL004",
        says="gives no answer",
    ),
    Case(
        "one collective too many",
        "if rank == 2: dist.broadcast(torch.zeros(3), src=2)",
        "NCCL004",
        says="called broadcast #21",
        ends=True,
    ),
    Case(
        "another size",
        "if rank == 2: dist.all_reduce(torch.zeros(0))",
        "NCCL004",
        says="called all_reduce #21 [0]",
        ends=True,
    ),
    Case("early end", "return rank == 2", "DATA001", says="called barrier #21", ends=True),
    Case("saved alone", "if rank == 0: save_checkpoint()", "CKPT003", "0", says="all_gather #21", ends=True),
    Case(
        "sub-group",
        "if rank == 1: dist.all_reduce(torch.zeros(7), group=pair)\nif rank == 2: time.sleep(600)",
        "NCCL004",
        says="has not entered",
    ),
    Case("one slow step", "time.sleep(5)", stall="25"),
    Case("a long evaluation", "for _ in range(12):\n    time.sleep(1); slipway.progress()", stall="6"),
    Case("everybody works for long", "time.sleep(10)", stall="6"),
)


@dataclass(frozen=True)
class Judged:
    """What came of one job: `wrong` is empty where all is as it should be; times in seconds."""

    case: str
    wrong: str
    said: tuple[str, ...]
    seconds: float | None


def run(case: Case, folder: Path) -> Judged:
    """One job with this mishap, to the verdict that is expected or to its end."""
    script = SCRIPT.replace("{mishap}", textwrap.indent(case.mishap, "    "))
    boots = start_boots(folder, script, ["--watchdog-stall", case.stall, "--watchdog-first-step", "120"])
    until = time.monotonic() + LONGEST_SECONDS
    try:
        while time.monotonic() < until and any(boot.poll() is None for boot in boots.values()):
            if case.code and not case.ends and _said(folder):
                # A second look follows, which may not say anything else.
                time.sleep(1.0)
                break
            time.sleep(0.1)
        return _judged(case, folder, {host: boot.poll() for host, boot in boots.items()})
    finally:
        await_boots(boots, 0.0)


def _judged(case: Case, folder: Path, codes: Mapping[int, int | None]) -> Judged:
    said = _said(folder)
    wrong = []
    if case.code is None:
        wrong += [f"said {text!r}" for _, _, text in said]
        wrong += [f"exit code {code}" for code in codes.values() if code != 0]
    elif not said:
        wrong.append("said nothing")
    for named, ranks, text in said:
        if case.code is not None and (named, ranks) != (case.code, case.ranks):
            wrong.append(f"named {named} {ranks}: {text}")
        if case.says not in text:
            wrong.append(f"said {text!r}")
    if case.ends:
        for host, code in codes.items():
            reason = failure_of(folder, host)
            if code != 1 or not reason.startswith(f"{case.code} rank {case.ranks} "):
                wrong.append(f"algo-{host} ended with {code}: {reason[:200]!r}")
    return Judged(case.name, "; ".join(wrong), tuple(text for _, _, text in said), _seconds(said))


def _said(folder: Path) -> list[tuple[str, str, str]]:
    lines = [line for host in (1, 2) for line in printed_by(folder, host).splitlines()]
    found = [match for match in map(_SAID.match, lines) if match]
    return [(match["code"], match["ranks"].strip(), match["text"]) for match in found]


def _seconds(said: Sequence[tuple[str, str, str]]) -> float | None:
    found = re.search(r"step for (\d+) s", said[0][2]) if said else None
    return float(found[1]) if found else None


def campaign(cases: Sequence[Case], times: int, at_once: int, kept: Path) -> Iterator[Judged]:
    """Every case so many times; what went wrong is kept in a folder."""

    def one(number: int) -> Judged:
        case = cases[number % len(cases)]
        with tempfile.TemporaryDirectory(prefix="stall-", ignore_cleanup_errors=True) as folder:
            judged = run(case, Path(folder))
            if judged.wrong:
                keep_copy(Path(folder), kept / f"{case.name}-{number}")
        return judged

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(one, range(times * len(cases)))


def main() -> int:
    """Run the cases that are named, or all; 1 where something was said wrongly."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack.real_ranks.stalls")
    parser.add_argument("cases", nargs="*", help="the names of cases, or their beginnings; all without")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=Path("build/stalls"), help="for what went wrong")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.cases or case.name.startswith(tuple(options.cases))]
    every = []
    for judged in campaign(cases, options.times, options.at_once, options.kept):
        every.append(judged)
        print(f"{judged.case}: {judged.wrong or 'right'} {judged.said[:1]}", flush=True)
    for case in cases:
        mine = [each for each in every if each.case == case.name]
        took = [each.seconds for each in mine if each.seconds is not None]
        longest = f", named within {max(took):.0f} s of the last step (limit {case.stall} s)" if took else ""
        print(f"{case.name}: {sum(not each.wrong for each in mine)} of {len(mine)} right{longest}")
    return int(any(each.wrong for each in every))


if __name__ == "__main__":
    sys.exit(main())
