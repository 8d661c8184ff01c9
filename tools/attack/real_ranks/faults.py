"""Jobs with a fault injected into one of their ranks: does the diagnosis name the failure, and the rank?

    python -m tools.attack.real_ranks.faults --times 5                       # all kinds; `make faults`
    python -m tools.attack.real_ranks.faults killed "port" --kept build/faults
    python -m tools.attack.real_ranks.faults --again build/faults            # what was kept, judged once more

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own and the script
under torchrun. Afterwards all that the hosts left is diagnosed as `launch diagnose --log FOLDER` does: what
they printed, the logs kept of each rank, the recordings and the stacks. Needs torch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.diagnosis.diagnose import diagnose
from launcher.session.log_files import logs_in
from tools.attack.real_ranks.campaign import Judged, chosen, filled, parser_of, read_jobs, run_all, told
from tools.attack.real_ranks.local_hosts import await_boots, start_boots

LONGEST_SECONDS = 150.0
_JOBS = read_jobs(__file__)


@dataclass(frozen=True)
class Fault:
    """What goes wrong in the script, and the answers that are right, as `faults.toml` explains them."""

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
        parts = {"fault": self.at, "first": self.first, "before": self.before, "after": self.after}
        return filled(_JOBS["script"], **parts, steps=str(self.steps + 1))


def _fault(codes: Sequence[str], ranks: Sequence[Any], **fields: Any) -> Fault:
    return Fault(
        codes=tuple(codes), ranks=tuple(None if rank == "none" else rank for rank in ranks), **fields
    )


FAULTS = tuple(_fault(**case) for case in _JOBS["cases"])
"""Each kind of fault once."""


@dataclass(frozen=True)
class Answer:
    """What the diagnosis says of a job: the code of the root cause, its rank and its host."""

    code: str | None
    rank: int | None
    host: str | None
    said: str = ""


def what_is_wrong(fault: Fault, answer: Answer) -> str:
    """How an answer differs from the right one; nothing where it is right."""
    wrong = []
    if answer.code not in fault.codes:
        wrong.append(f"{answer.code or 'nothing'}, not {' or '.join(fault.codes)}")
    if answer.rank not in fault.ranks:
        wrong.append(f"rank {answer.rank}, not {' or '.join(str(rank) for rank in fault.ranks)}")
    if fault.host is not None and answer.host != fault.host:
        wrong.append(f"{answer.host}, not {fault.host}")
    return f"{'; '.join(wrong)}: {answer.said[:300]}" if wrong else ""


def run(fault: Fault, folder: Path) -> Judged:
    """One job with this fault, to its end; what it leaves lies below the folder."""
    options = ["--watchdog-stall", "5", "--watchdog-first-step", "90", "--restarts", str(fault.restarts)]
    began = time.monotonic()
    await_boots(start_boots(folder, fault.script, options, _variables), LONGEST_SECONDS)
    took = time.monotonic() - began
    return Judged(fault.name, what_is_wrong(fault, answer_of(folder)), seconds=took)


def answer_of(folder: Path) -> Answer:
    """The diagnosis of what a job left there."""
    files = logs_in([folder])
    diagnosis = diagnose(files.records, streams=files.streams, evidence=files.evidence)
    cause = diagnosis.root_cause
    if cause is None:
        return Answer(None, None, None, f"verdict {diagnosis.verdict.value}")
    return Answer(cause.finding.code, cause.rank, cause.host, cause.finding.message)


def _variables(root: Path) -> dict[str, str]:
    """What the plan sets, so that there is a recording of the collectives."""
    return {
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": str(root / "output" / "data" / "flight_recorder" / "rank_"),
    }


def judged_again(faults: Sequence[Fault], kept: Path) -> Iterator[Judged]:
    """What the diagnosis says now of jobs that were kept."""
    for fault in faults:
        for folder in sorted(kept.glob(f"{fault.name}-[0-9]*")):
            yield Judged(fault.name, what_is_wrong(fault, answer_of(folder)))


def main() -> int:
    """Run the kinds that are named, or all; 1 where an answer is wrong."""
    parser = parser_of(__file__)
    parser.add_argument("--again", type=Path, metavar="KEPT", help="run nothing, judge what was kept")
    options = parser.parse_args()
    faults = chosen(FAULTS, options)
    if options.again:
        return told(judged_again(faults, options.again))
    return told(run_all(run, faults, options, keeps=True))


if __name__ == "__main__":
    sys.exit(main())
