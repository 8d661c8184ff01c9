"""Trouble in the data, the numbers or the memory of one rank: does the job end, or go on, as it should?

    python -m tools.attack.real_ranks.numbers                         # all cases; `make numbers`
    python -m tools.attack.real_ranks.numbers "loss" --times 5

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own and the script
under torchrun. Without what the script calls of `slipway`, most of these jobs would end in a timeout. The
last case stops a job while it saves, and looks at what lies on the disks. Needs torch and the standard
library alone.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tools.attack.real_ranks.campaign import Judged, chosen, filled, once, parser_of, read_jobs, run_all, told
from tools.attack.real_ranks.local_hosts import Boots, await_boots, failure_of, printed_by, start_boots

LONGEST_SECONDS = 200.0
_SAID = re.compile(r"(?m)^(?:\[rank\d+\]:)?said (?P<what>.*)$")

_JOBS = read_jobs(__file__)

Judge = Callable[[list[str]], str]


def equal_on_all_ranks(said: list[str]) -> str:
    """All four ranks have trained to the same weights."""
    ends = [line for line in said if line.startswith("trained ")]
    return "" if len(ends) == 4 and len(set(ends)) == 1 else f"the ranks end with {ends}"


def _as_many_steps(which: Callable[[list[int]], list[int]]) -> Judge:
    """A judge of uneven loaders: the steps of the four ranks are those that `which` makes of their own."""

    def judge(said: list[str]) -> str:
        epochs: dict[str, dict[int, int]] = {}
        for line in said:
            name, epoch, rank, steps = line.split(": ")
            epochs.setdefault(f"{name}, {epoch}", {})[int(rank[5:])] = int(steps.split()[0])
        wrong = [] if len(epochs) == 26 else [f"{len(epochs)} epochs of 26"]
        for name, ranks in sorted(epochs.items()):
            expected = which(_OWN_STEPS.get(name.split(",")[0], [2, 4, 6, 8]))
            if [ranks.get(rank) for rank in range(4)] != expected:
                wrong.append(f"{name}: {ranks}, not {expected}")
        return "; ".join(wrong)

    return judge


_OWN_STEPS = {"drop_last": [1, 3, 4, 6], "even already": [7, 7, 7, 7]}
"""The batches of each rank where they are not those of 8, 16, 24 and 32 samples by 4."""


@dataclass(frozen=True)
class Case:
    """What a script does, and what is to come of it: without a `code` the job succeeds and `judge` finds
    nothing wrong with what the ranks say, else its failure files begin with that and hold all of `says`."""

    name: str
    body: str
    code: str | None = None
    says: tuple[str, ...] = ()
    judge: Judge = equal_on_all_ranks


def _all_went_back(said: list[str]) -> str:
    went = said.count("back to step 10")
    return equal_on_all_ranks(said) or ("" if went == 4 else "not all went back to step 10")


_JUDGES: dict[str, Judge] = {
    "equal": equal_on_all_ranks,
    "back to step 10": _all_went_back,
    "as many steps as the most": _as_many_steps(lambda own: [max(own)] * 4),
    "as many steps as the fewest": _as_many_steps(lambda own: [min(own)] * 4),
    "its own steps": _as_many_steps(lambda own: own),
}


def _case(body: str, words: dict[str, str], judge: str = "equal", **fields: Any) -> Case:
    return Case(body=_with_words(body, words), judge=_JUDGES[judge], **fields)


def _with_words(body: str, words: dict[str, str]) -> str:
    text: str = _JOBS["bodies"][body]
    for word, other in words.items():
        text = text.replace(word, other)
    return text


CASES = tuple(_case(**case) for case in _JOBS["cases"])


def run(case: Case, folder: Path) -> Judged:
    """One job of this case to its end."""
    codes = await_boots(_boots(case.body, folder), LONGEST_SECONDS)
    said = _said(folder)
    wrong = []
    for host, code in codes.items():
        reason = failure_of(folder, host)
        if case.code is None:
            if code != 0 or reason:
                wrong.append(f"algo-{host} ended with {code}: {reason[:300]!r}")
        elif code in (0, None):
            wrong.append(f"algo-{host} ended with {code}")
    if case.code is not None:
        reasons = [each.read_text() for each in folder.glob("algo-*/output/failure")]
        if not any(
            each.startswith(case.code) and all(word in each for word in case.says) for each in reasons
        ):
            wrong.append(f"the reasons are {[each[:300] for each in reasons]}")
    elif not wrong:
        wrong.append(case.judge(said))
    return Judged(case.name, "; ".join(filter(None, wrong)))


@dataclass(frozen=True)
class Stop:
    """A stop of a job that saves, at a moment of the seed's own."""

    seed: int

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"stopped while saving, {self.seed}"


def stopped_while_saving(stop: Stop, folder: Path) -> Judged:
    """A job that saves without a pause gets SIGTERM at a random moment: each checkpoint on its disks is whole
    or does not count, and the next start goes on from the newest one."""
    chance = random.Random(stop.seed)
    body = _with_words("saving", {"BALLAST": str(chance.choice([10_000, 1_000_000, 5_000_000]))})
    boots = _boots(body, folder)
    until = time.monotonic() + LONGEST_SECONDS
    while "said saving 2" not in printed_by(folder, 1):
        if time.monotonic() > until or any(boot.poll() is not None for boot in boots.values()):
            break
        time.sleep(0.05)
    time.sleep(chance.uniform(0.0, 1.5))
    for boot in boots.values():
        boot.send_signal(signal.SIGTERM)
    first = await_boots(boots, LONGEST_SECONDS)
    wrong = [f"algo-{host} was stopped and ended with {code}" for host, code in first.items() if code != 143]
    newest, broken = checkpoints_in(folder)
    wrong += broken
    for each in folder.glob("algo-*.log"):
        each.rename(each.with_suffix(".first"))
    second = await_boots(_boots(body, folder), LONGEST_SECONDS)
    wrong += [f"algo-{host} went on and ended with {code}" for host, code in second.items() if code != 0]
    begun = set(_said(folder))
    if f"from {newest}" not in begun:
        wrong.append(f"it went on {sorted(begun)[:1]}, the newest checkpoint is of step {newest}")
    return Judged(stop.name, "; ".join([*wrong, *checkpoints_in(folder)[1]]))


def checkpoints_in(folder: Path) -> tuple[int, list[str]]:
    """The newest step with a manifest, and which files are not what their manifest says."""
    newest, wrong = 0, []
    for manifest in folder.glob("algo-*/checkpoints/step-*/manifest.json"):
        told = json.loads(manifest.read_text())
        newest = max(newest, told["step"])
        for file in told["files"]:
            path = manifest.parent / file["name"]
            if file["host"] == manifest.parents[2].name:
                found = path.read_bytes() if path.exists() else b""
                if (len(found), hashlib.sha256(found).hexdigest()) != (file["bytes"], file["sha256"]):
                    wrong.append(f"{path} is not what its manifest says")
    return newest, wrong


def _boots(body: str, folder: Path) -> Boots:
    options = ["--watchdog-stall", "60", "--watchdog-first-step", "120"]
    return start_boots(folder, filled(_JOBS["script"], body=body), options)


def _said(folder: Path) -> list[str]:
    return [match["what"] for host in (1, 2) for match in _SAID.finditer(printed_by(folder, host))]


def main() -> int:
    """Run the cases that are named, or all, then the stops; 1 where something went wrong."""
    parser = parser_of(__file__)
    parser.add_argument("--stops", type=int, default=20, help="stops of jobs that save")
    options = parser.parse_args()
    jobs = run_all(run, chosen(CASES, options), options, keeps=False)
    stops = [Stop(seed) for seed in range(options.stops)]
    return told(chain(jobs, run_all(stopped_while_saving, stops, once(options), keeps=False)))


if __name__ == "__main__":
    sys.exit(main())
