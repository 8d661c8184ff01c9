"""Run the attacks, print what failed, and keep the figures.

python -m tools.attack                        # all, in full
python -m tools.attack kills --share 0.1      # one area, with a tenth of its cases; keeps no figures
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import psutil

from tools.attack import figures, hostile, kills, real_time
from tools.attack.edges.attacks import KINDS, attacks_of
from tools.attack.edges.trying import try_all
from tools.attack.figures import Figure
from tools.attack.fuzzing.areas import AREAS
from tools.attack.fuzzing.campaign import CASE_SECONDS, fuzz
from tools.attack.managed import campaign as managed
from tools.attack.matrix.campaign import attacked_cells

CASES_OF_A_FUZZED_AREA = 20_000
KILLS_OF_A_WAY = 100
MANAGED_RUNS = 500
CELLS = 10_000
"""More than there are."""

Attack = Callable[[float], Iterator[Figure]]


def matrix(share: float) -> Iterator[Figure]:
    """Every command under every fault at each of its calls."""
    tried, failed, causes, codes = 0, 0, Counter[str](), Counter[int | None]()
    for judged in attacked_cells(None if share >= 1 else int(share * CELLS / 2)):
        tried += 1
        codes[judged.exit_code] += 1
        if judged.wrong:
            failed += 1
            causes[f"{judged.cell.command.name}, {judged.cell.attack.call}: {'; '.join(judged.wrong)}"] += 1
            print(f"  {judged.cell}: {'; '.join(judged.wrong)}", flush=True)
    ended = ", ".join(f"{count:,} with {code}" for code, count in sorted(codes.items(), key=str))
    yield _figure(
        "AWS and the network",
        tried,
        failed,
        f"exit codes: {ended}",
        [f"{c} ({n})" for c, n in causes.most_common()],
    )


def minute(share: float) -> Iterator[Figure]:
    """Commands that only look, over a real connection, by the clock."""
    every = list(real_time.measured())
    wrong = [f"{each.command} under {each.fault}: {each.wrong}" for each in every if each.wrong]
    longest = max(every, key=lambda each: each.seconds)
    seen = f"longest: {longest.seconds:.0f} s, {longest.command} under a {longest.fault}"
    yield _figure("a minute by the clock, drip and hang", len(every), len(wrong), seen, wrong)


def fuzzing(share: float) -> Iterator[Figure]:
    """Documents, local state, requests and log lines."""
    for area in AREAS:
        found = fuzz(area, int(share * CASES_OF_A_FUZZED_AREA))
        hung = sum(count for text, count in found.failed.items() if "hung" in text or "SIGPROF" in text)
        seen = (
            f"{hung} hung for {CASE_SECONDS} s; slowest {found.slowest_seconds:.1f} s of CPU; "
            f"memory grew by {found.grown_bytes >> 20} MB at most"
        )
        causes = [f"{text} ({n}; {found.examples[text]})" for text, n in found.failed.most_common()]
        failed = found.failed.total()
        yield _figure(f"fuzzed {area.name}: {area.what}", found.tried, failed, seen, causes)


def hostile_files(share: float) -> Iterator[Figure]:
    """Deep and wide files, and folders with what is no file."""
    every = [hostile.try_case(case) for case in hostile.cases(heavy=True)]
    wrong = [f"{each.case.name}: {each.wrong}" for each in every if each.wrong]
    slowest, largest = max(every, key=lambda e: e.seconds), max(every, key=lambda e: e.megabytes)
    seen = (
        f"slowest {slowest.seconds:.1f} s ({slowest.case.name}), largest {largest.megabytes} MB "
        f"({largest.case.name})"
    )
    yield _figure("hostile files and folders", len(every), len(wrong), seen, wrong)


def killed_launchers(share: float) -> Iterator[Figure]:
    """kill -9 at random moments, then the same command again."""
    for done in kills.campaigns(max(1, int(share * KILLS_OF_A_WAY))):
        wrong = [*(f"two jobs, {each}" for each in done.doubled), *done.other]
        seen = f"{len(done.doubled)} doubled, {done.adopted} went on with the job that was there"
        yield _figure(f"kill -9 and again: {done.way.name}", done.killed, len(wrong), seen, wrong)


def managed_runs(share: float) -> Iterator[Figure]:
    """Managed runs whose events and whose controller meet everything that can go wrong."""
    done = managed.campaign(max(1, int(share * MANAGED_RUNS)))
    counted = done.counted
    seen = (
        f"{counted['attempts']:,} attempts, {counted['events delivered']:,} events delivered, "
        f"{counted['kills']:,} kills, {counted['calls that failed']:,} calls that failed, "
        f"{counted['runs stopped']:,} runs stopped; {done.lost_and_named} in the dead-letter queue, "
        f"{done.late} jobs created and stopped just after their run was"
    )
    yield _figure("managed runs", done.runs, len(done.violated), seen, done.violated)


def edges(kind: str) -> Attack:
    """The table of a kind: hostile environments, inputs, checkpoints, local runs, containers, secrets."""

    def attack(share: float) -> Iterator[Figure]:
        every = list(attacks_of(kind))
        tried = list(try_all(every[:: max(1, round(1 / share))]))
        wrong = [f"{each.attack}: {'; '.join(each.wrong)}" for each in tried if each.wrong]
        slowest = max(tried, key=lambda each: each.seconds)
        seen = f"slowest {slowest.seconds:.1f} s of CPU ({slowest.attack})"
        yield _figure(f"at the edges: {kind}", len(tried), len(wrong), seen, wrong)

    return attack


ATTACKS: Mapping[str, Attack] = {
    "matrix": matrix,
    "minute": minute,
    "fuzzing": fuzzing,
    "hostile": hostile_files,
    "kills": killed_launchers,
    "managed-runs": managed_runs,
    **{kind.replace(" ", "-"): edges(kind) for kind in KINDS},
}


def main(words: Sequence[str]) -> int:
    """Run what was named, or all; exits with 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__.partition("\n")[0])
    parser.add_argument("areas", nargs="*", choices=[*ATTACKS, []], help="all, where none is named")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the cases; figures are kept of full runs"
    )
    parser.add_argument("--keep", action="store_true", help="keep the figures of a share as well")
    asked = parser.parse_args(words)
    # What was fuzzed may be named by a case, half surrogates and all.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    failed = False
    for name in asked.areas or ATTACKS:
        began = time.monotonic()
        for figure in ATTACKS[name](asked.share):
            failed |= bool(figure.failed)
            print(
                f"{figure.area}: {figure.tried:,} tried, {figure.failed:,} failed; {figure.seen}", flush=True
            )
            for cause in figure.causes:
                print(f"  {cause}", flush=True)
            if asked.share >= 1 or asked.keep:
                figures.keep([figure])
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def _figure(area: str, tried: int, failed: int, seen: str, causes: Sequence[str]) -> Figure:
    memory = psutil.virtual_memory().total / 1024**3
    machine = f"{os.cpu_count()} cores, {memory:.0f} GB, Python {sys.version.split()[0]}"
    return Figure(area, tried, failed, seen, f"{datetime.now(UTC):%Y-%m-%d}", machine, tuple(causes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
