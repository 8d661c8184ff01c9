"""What NCCL's own report (`ncclras`) and PyTorch's analyser of flight recorders say of the ranks of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.model import CollectiveCall, RankState
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.group_lines import ANALYSIS_BEGINS, Unmatched, mismatches, signs_of_mismatch
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.text.values import ranks_text

# NCCL's own report of a job, as `ncclras` prints it (NCCL 2.24 to 2.28, src/ras/client_support.cc).
#
# Its errors and warnings list ranks of a communicator: missing ones, dead processes, and those that
# launched fewer operations than the others. Ranks are a communicator's, which are the job's only in the one
# that has all of them; of others the process is told.


_LONGEST_RAS_LINE = 500
_HEADING = re.compile(r"^#(?P<group>\d{1,7})-\d{1,7} \([0-9a-f]{1,16}\) (?P<what>INCOMPLETE|ERROR|MISMATCH)$")
_TOTAL = re.compile(r"^ {0,6}\d{1,7} +\d{1,9} +\d{1,11} +\d{1,9} +(?P<gpus>\d{1,7})$")
"""Of the job summary: hosts, processes a host, GPUs a process, processes, GPUs in all."""

_SIZES = re.compile(
    r"^ {0,5}(?P<group>\d{1,7}) +(?P<count>\d{1,7}) +\d{1,7} +[\d-]{1,15} +(?P<ranks>\d{1,7}) +\d{1,7} +[A-Z]"
)
_COUNTS = re.compile(r"^ {2}Communicator ranks have different (?P<name>\w{1,40}) operation counts$")
_SEVERAL = re.compile(
    r"^ {2}\d{1,7} ranks have (?:launched up to operation (?P<number>\d{1,18})|not launched any operations)$"
)
_ONE = re.compile(
    r"^ {2}Rank (?P<rank>\d{1,7})(?: has (?:launched up to operation (?P<number>\d{1,18})|"
    r"(?P<none>not launched any) operations))? -- "
)


@dataclass(slots=True)
class _RasReport:
    """What is said of one communicator: its ranks that are missing, and how far each of the others is."""

    what: str
    ranks: int | None
    name: str | None = None
    missing: tuple[int, ...] = ()
    launched: tuple[tuple[int, int], ...] = ()
    most: int | None = None
    """The number at which most ranks are: the first that is named."""
    of_group: int | None = None
    """The number of the ranks that are listed next."""


def is_ras_report(head: bytes) -> bool:
    """Whether a file begins as the output of ncclras does."""
    return b"NCCL version " in head and b"Job summary" in head


def read_ras_report(text: str) -> FileEvidence:
    """What the report says of ranks that are missing or behind."""
    totals = [
        int(found["gpus"]) for line in text.splitlines() if (found := _TOTAL.match(line[:_LONGEST_RAS_LINE]))
    ]
    world = totals[0] if totals else None
    whole = [each for each in _reports(text) if each.ranks is not None and each.ranks == world]
    rows = [RankState(rank, state="missing in NCCL's report") for each in whole for rank in each.missing]
    rows += [
        RankState(rank, enqueued=CollectiveCall(each.name or "", number))
        for each in whole
        for rank, number in each.launched
    ]
    return FileEvidence(tuple(rows), tuple(_sightings(whole)), world, has_lines=True)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def _sightings(reports: Sequence[_RasReport]) -> Iterator[Sighting]:
    for each in reports:
        # Also in a job that goes on some are a little behind, so this is vague.
        behind = tuple(rank for rank, number in each.launched if each.most is not None and number < each.most)
        ranks = each.missing or behind
        if not ranks:
            continue
        has = "has" if len(ranks) == 1 else "have"
        if each.missing:
            told = f"{has} given NCCL no account of the communicator: dead, or not to be reached"
        else:
            numbers = ", ".join(str(number) for rank, number in each.launched if rank in behind[:3])
            told = f"{has} launched {each.name} up to #{numbers}, where most are at #{each.most}"
        yield Sighting(
            mode=nccl.COLLECTIVE_TIMED_OUT,
            role=LineRole.SYMPTOM,
            vague=not each.missing,
            what=told if len(ranks) == 1 else f"{ranks_text(ranks)} {told}",
            rank=ranks[0] if len(ranks) == 1 else None,
            host=None,
            index=BEFORE_ALL_LINES,
            clock=None,
            time=None,
            text=f"NCCL RAS: {ranks_text(ranks)} {told}",
        )


def _reports(text: str) -> Iterator[_RasReport]:
    sizes: dict[str, int] = {}
    report: _RasReport | None = None
    for raw in text.splitlines():
        line = raw[:_LONGEST_RAS_LINE].rstrip()
        if report is None and (size := _SIZES.match(line)) is not None:
            if size["count"] == "1":
                sizes[size["group"]] = int(size["ranks"])
        elif (heading := _HEADING.match(line)) is not None:
            if report is not None:
                yield report
            report = _RasReport(heading["what"], sizes.get(heading["group"]))
        elif report is not None and (counts := _COUNTS.match(line)) is not None:
            yield report
            report = _RasReport(report.what, report.ranks, counts["name"])
        elif report is not None:
            _add_line(report, line)
    if report is not None:
        yield report


def _add_line(report: _RasReport, line: str) -> None:
    if report.name is not None and (several := _SEVERAL.match(line)) is not None:
        report.of_group = int(several["number"] or 0)
        report.most = report.of_group if report.most is None else report.most
        return
    one = _ONE.match(line)
    if one is None:
        return
    rank = int(one["rank"])
    if report.what == "INCOMPLETE" and report.name is None:
        report.missing = (*report.missing, rank)
    elif report.name is not None:
        number = int(one["number"] or 0) if one["number"] or one["none"] else report.of_group
        if number is not None:
            report.launched = (*report.launched, (rank, number))


# The output of PyTorch's own analyser of flight recorders, of which `signs/group_lines.py` has the texts.


def is_analysis(head: bytes) -> bool:
    """Whether a file begins as the analyser's output does, where it found something."""
    if b"ollective" not in head:
        return False
    lines = head.decode("utf-8", "replace").splitlines()
    return any(ANALYSIS_BEGINS.match(line) for line in lines) and any(
        line.startswith(("internal record id: ", "group info: ")) for line in lines
    )


def read_analysis(text: str) -> FileEvidence:
    """Which ranks did not join a collective, or called another one than the others."""
    found = mismatches(text)
    sizes = [each.fields.get("world size", "") for each in found]
    world = [int(size) for size in sizes if size.isdecimal() and len(size) < 7]
    return FileEvidence(
        sightings=tuple(sign for each in _first_of_each_group(found) for sign in signs_of_mismatch(each)),
        world_size=max(world, default=None),
    )


def _first_of_each_group(found: list[Unmatched]) -> Iterator[Unmatched]:
    """The first of each group: what comes after it follows from it."""
    seen: set[str] = set()
    for each in sorted(found, key=lambda one: one.number):
        group = each.fields.get("group info", "")
        if group not in seen:
            seen.add(group)
            yield each
