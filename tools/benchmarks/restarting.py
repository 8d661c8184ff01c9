"""How long a job stands still when one of its ranks is killed: from SIGKILL to the next step.

Bound: at most 5 s longer than the same script needs from the start of torchrun alone to its first step, in
the medians of one run. Two hosts of two ranks are this machine; the next step is that of the ranks which the
boots have started again, after both hosts have agreed and the newest checkpoint has been read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from tools.attack.real_ranks import restarts
from tools.attack.real_ranks.campaign import filled, read_jobs
from tools.attack.real_ranks.local_hosts import await_boots, printed_by, run_torchrun, start_boots
from tools.benchmarks.measuring import Figure, medians

RUNS = 3
BOUND_SECONDS = 5.0
_KILLED = """\
if rank == 3 and step == 25 and not attempt:
    print(f"{time.time():.3f} killed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)"""
_SCRIPT = partial(filled, read_jobs(restarts.__file__)["script"], first="", saves="True")
"""A training that saves every tenth of its steps and says when it made each."""


def from_start(folder: Path) -> float:
    """Seconds from the start of torchrun alone, on both hosts, to the end of the first step."""
    folder.mkdir()
    started = time.time()
    variables = {"SLIPWAY_CHECKPOINT_DIR": str(folder / "checkpoints"), "SLIPWAY_ATTEMPT": "0"}
    return first("attempt 0", run_torchrun(folder, _SCRIPT(mishap="pass"), 2, variables)) - started


def from_kill(folder: Path) -> float:
    """Seconds from the SIGKILL of one rank to the end of the next step of the ranks started again."""
    folder.mkdir()
    options = ["--restarts", "1", "--watchdog-stall", "60", "--watchdog-first-step", "120"]
    codes = await_boots(start_boots(folder, _SCRIPT(mishap=_KILLED), options), 300)
    printed = "".join(printed_by(folder, host) for host in codes)
    if any(codes.values()):
        raise SystemExit(f"the job did not go on: {printed[-20000:]}")
    return first("attempt 1", printed) - first("killed", printed)


def first(what: str, printed: str) -> float:
    """When something happened first."""
    return min(float(at) for at in re.findall(rf"(\d+\.\d+) {what}", printed))


def figures(folder: Path) -> Iterator[Figure]:
    """How much longer the one takes than the other."""
    places = (folder / str(number) for number in count())
    actions = {
        "torchrun's start to the first step": lambda: from_start(next(places)),
        "SIGKILL to the next step": lambda: from_kill(next(places)),
    }
    start, back = (middle := medians(actions, RUNS, warm=False)).values()
    beside = ", ".join(f"from {what} {took:.1f} s" for what, took in middle.items())
    yield Figure("a job stands still, more than a start takes", back - start, BOUND_SECONDS, " s", beside)
