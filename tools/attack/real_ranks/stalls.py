"""Jobs that stall, each on purpose at one rank: does the watchdog name that rank, and no other?

    python -m tools.attack.real_ranks.stalls --times 20 --at-once 1      # `make stalls`
    python -m tools.attack.real_ranks.stalls sleep stopped --times 1

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own. Needs torch
and the standard library alone, so that it runs on any machine that has them. Also jobs that do not stall: of
them nothing may be said.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.attack.real_ranks.campaign import Judged, chosen, filled, parser_of, read_jobs, run_all, told
from tools.attack.real_ranks.local_hosts import await_boots, failure_of, printed_by, start_boots

LONGEST_SECONDS = 180.0
_SAID = re.compile(
    r"^slipway: (?:warning: )?(?P<text>(?P<code>[A-Z]+\d{3}) ranks? (?P<ranks>[\d, -]+) on .*)$"
)

_JOBS = read_jobs(__file__)


@dataclass(frozen=True)
class Case:
    """A mishap of the script and what is to be said of it, as `stalls.toml` explains them."""

    name: str
    mishap: str
    code: str | None = None
    ranks: str = "2"
    says: str = ""
    ends: bool = False
    stall: str = "6"


CASES = tuple(Case(**case) for case in _JOBS["cases"])


def run(case: Case, folder: Path) -> Judged:
    """One job with this mishap, to the verdict that is expected or to its end."""
    options = ["--watchdog-stall", case.stall, "--watchdog-first-step", "120"]
    boots = start_boots(folder, filled(_JOBS["script"], mishap=case.mishap), options)
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
    named = re.search(r"step for (\d+) s", said[0][2]) if said else None
    return Judged(
        case.name, "; ".join(wrong), tuple(text for _, _, text in said[:1]), named and float(named[1])
    )


def _said(folder: Path) -> list[tuple[str, str, str]]:
    lines = [line for host in (1, 2) for line in printed_by(folder, host).splitlines()]
    found = [match for match in map(_SAID.match, lines) if match]
    return [(match["code"], match["ranks"].strip(), match["text"]) for match in found]


def main() -> int:
    """Run the cases that are named, or all; 1 where something was said wrongly.

    The seconds are those since the last step when a rank was named; a case's limit is its `stall`.
    """
    options = parser_of(__file__, times=20, kept=Path("build/stalls")).parse_args()
    return told(run_all(run, chosen(CASES, options), options, keeps=False))


if __name__ == "__main__":
    sys.exit(main())
