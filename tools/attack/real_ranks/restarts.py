"""Jobs whose ranks end badly, each on purpose: are they started again where they should, and only there?

    python -m tools.attack.real_ranks.restarts --times 3                  # all cases
    python -m tools.attack.real_ranks.restarts killed "no progress"

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own; the script
saves every tenth of its steps with slipway.CheckpointManager. Where a job goes on, its weights at the end
must be those of an uninterrupted job. Needs torch and the standard library alone.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from tools.attack.real_ranks.campaign import Judged, chosen, filled, once, parser_of, read_jobs, run_all, told
from tools.attack.real_ranks.local_hosts import failure_of, printed_by, start_boots

LONGEST_SECONDS = 200.0
_WEIGHTS = re.compile(r"weights ([0-9a-f]{64})")
_RESTART = re.compile(r"^slipway: restart (\d+) of \d+: .*$", re.MULTILINE)

_JOBS = read_jobs(__file__)


@dataclass(frozen=True)
class Case:
    """A mishap of the script and what is to come of it, as `restarts.toml` explains them."""

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


CASES = tuple(Case(**case) for case in _JOBS["cases"])


def run(case: Case, folder: Path, weights: list[str]) -> Judged:
    """One job with this mishap, to its end; `weights` are those of the jobs that ended before.

    The seconds are those from the last step before the first restart to the next one.
    """
    parts = {"first": case.first, "mishap": case.mishap, "saves": str(case.saves)}
    options = ["--watchdog-stall", "6", "--watchdog-first-step", "120", "--restarts", str(case.allowed)]
    began, boots = time.time(), start_boots(folder, filled(_JOBS["script"], **parts), options)
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
        wrong = [*_wrong_ends(case, folder, {host: boot.poll() for host, boot in boots.items()})]
    finally:
        for host, boot in boots.items():
            if boot.poll() is None:
                boot.kill()
            boot.wait()
            _kill_below(folder / f"algo-{host}")
    printed = printed_by(folder, 1)
    found = _WEIGHTS.findall(printed)[:1]
    if case.code is None and not case.stops and (not found or weights[:1] not in ([], found)):
        wrong.append(f"the weights are {found}, not {weights[:1]}")
    weights += found
    said = [match[0] for match in _RESTART.finditer(printed)]
    steps = [(float(at), int(n)) for at, n in re.findall(r"(\d+\.\d+) attempt (\d+) step", printed)]
    one, two = ([at for at, attempt in steps if attempt == number] for number in (0, 1))
    if one:
        said.append(f"a bare start: {min(one) - began:.1f} s")
    if took is None and one and two:
        took = min(two) - max(one)
    return Judged(case.name, "; ".join(wrong), tuple(said), took)


def _wrong_ends(case: Case, folder: Path, codes: Mapping[int, int | None]) -> Iterator[str]:
    for host, code in codes.items():
        if host == case.kills:
            continue
        reason = failure_of(folder, host)
        if case.stops:
            is_right = code == 128 + signal.SIGTERM and not reason
        elif case.code is None:
            is_right = code == 0 and not reason
        else:
            is_right = code not in (0, None) and reason.startswith(case.code) and case.says in reason
        if not is_right:
            yield f"algo-{host} ended with {code}: {reason[:400]!r}"
        restarts = printed_by(folder, host).count("slipway: restart ")
        if restarts != case.restarts:
            yield f"algo-{host} tells of {restarts} restarts"


def _kill_below(root: Path) -> None:
    """What a boot that was killed has left, as a container's end would."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"SLIPWAY_ROOT={root}\0".encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue


def main() -> int:
    """Run an uninterrupted job, then the cases that are named, or all; 1 where something went wrong."""
    options = parser_of(__file__, kept=Path("build/restarts")).parse_args()
    one_by_one = partial(run, weights=[])
    first = run_all(one_by_one, CASES[:1], once(options), keeps=False)
    return told(chain(first, run_all(one_by_one, chosen(CASES[1:], options), options, keeps=False)))


if __name__ == "__main__":
    sys.exit(main())
