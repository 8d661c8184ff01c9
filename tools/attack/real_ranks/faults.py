"""Jobs with a fault injected into one of their ranks: does the diagnosis name the failure, and the rank?

    python -m tools.attack.real_ranks.faults --times 5                       # all kinds; `make faults`
    python -m tools.attack.real_ranks.faults killed "port" --kept build/faults
    python -m tools.attack.real_ranks.faults --again build/faults            # what was kept, judged once more

Real ranks over gloo, two hosts of two ranks on this machine, each host with a boot of its own and the script
under torchrun. Afterwards all that the hosts left is diagnosed as `launch diagnose --log FOLDER` does: what
they printed, the logs kept of each rank, the recordings and the stacks. Needs torch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.session.log_files import logs_in
from tools.attack.real_ranks.injected import FAULTS, Fault
from tools.attack.real_ranks.local_hosts import await_boots, keep_copy, start_boots

LONGEST_SECONDS = 150.0


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


def run(fault: Fault, folder: Path) -> None:
    """One job with this fault, to its end; what it leaves lies below the folder."""
    options = ["--watchdog-stall", "5", "--watchdog-first-step", "90", "--restarts", str(fault.restarts)]
    await_boots(start_boots(folder, fault.script, options, _variables), LONGEST_SECONDS)


def answer_of(folder: Path) -> Answer:
    """The diagnosis of what a job left there."""
    files = logs_in([folder])
    diagnosis = diagnose(files.records, streams=files.streams, evidence=files.evidence)
    return _as_answer(diagnosis)


def _as_answer(diagnosis: Diagnosis) -> Answer:
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


def campaign(faults: Sequence[Fault], times: int, kept: Path | None) -> Iterator[tuple[Fault, str, float]]:
    """Every fault so many times: what was wrong with the answer, and the job's seconds."""
    for number, fault in enumerate([*faults] * times):
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            folder, began = Path(name), time.monotonic()
            run(fault, folder)
            took = time.monotonic() - began
            wrong = what_is_wrong(fault, answer_of(folder))
            if kept is not None:
                keep_copy(folder, kept / f"{fault.name}-{number // len(faults)}")
            yield fault, wrong, took


def judged_again(faults: Sequence[Fault], kept: Path) -> Iterator[tuple[Fault, str, float]]:
    """What the diagnosis says now of jobs that were kept."""
    for fault in faults:
        for folder in sorted(kept.glob(f"{fault.name}-[0-9]*")):
            yield fault, what_is_wrong(fault, answer_of(folder)), 0.0


def main() -> int:
    """Run the kinds that are named, or all; 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack.real_ranks.faults")
    parser.add_argument("kinds", nargs="*", help="the beginnings of kinds' names; all without")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--kept", type=Path, help="where to keep what the jobs leave")
    parser.add_argument("--again", type=Path, metavar="KEPT", help="run nothing, judge what was kept")
    options = parser.parse_args()
    faults = [each for each in FAULTS if not options.kinds or each.name.startswith(tuple(options.kinds))]
    results = (
        judged_again(faults, options.again)
        if options.again
        else campaign(faults, options.times, options.kept)
    )
    count = failed = 0
    for fault, wrong, took in results:
        count += 1
        failed += bool(wrong)
        print(f"{fault.name}: {wrong or 'right'}, {took:.0f} s", flush=True)
    print(f"{failed} of {count} wrong")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
