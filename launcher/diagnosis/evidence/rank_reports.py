"""What NCCL's own report (`ncclras`) and PyTorch's analyser of flight recorders say of the ranks of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.model import CollectiveCall, RankState
from launcher.diagnosis.signatures import LineRole
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


# What PyTorch's own analyser of flight recorders prints (`torchfrtrace`, `python -m
# tools.flight_recorder`).
#
# Texts: tools/flight_recorder of PyTorch 2.5 to 2.7 and torch/distributed/flight_recorder of 2.8 to 2.13:
# for each collective that does not match a record of `name: value` lines, with the ranks that did not join
# it, or a culprit and what differs.


_LONGEST_ANALYSIS_LINE = 4000
_MOST_RECORDS = 1000
_BEGINS = re.compile(
    r"^(?:Not all ranks joining collective|Collective)[,:]?(?: sequence number:)? (?P<number>\d{1,18})\b"
)
_FIELD = re.compile(
    r"^(?P<name>group info|collective|missing ranks|input sizes|world size|error msg): (?P<value>.{0,3000})$"
)
_RANKS = re.compile(r"^\{(?P<ranks>\d{1,7}(?:, \d{1,7}){0,2000})\}$")
_CULPRIT = re.compile(
    r"Culprit rank (?P<rank>\d{1,7}); (?:Error type: )?(?P<what>(?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX"
    r"|COLLECTIVE_DTYPE)_MISMATCH)(?:, (?P<details>[^,]{1,300}))?"
)


@dataclass(slots=True)
class _Unmatched:
    """A collective that does not match: its number in its group, and the fields of its record."""

    number: int
    fields: dict[str, str] = field(default_factory=dict)


def is_analysis(head: bytes) -> bool:
    """Whether a file begins as the analyser's output does, where it found something."""
    if b"ollective" not in head:
        return False
    lines = head.decode("utf-8", "replace").splitlines()
    return any(_BEGINS.match(line) for line in lines) and any(
        line.startswith(("internal record id: ", "group info: ")) for line in lines
    )


def read_analysis(text: str) -> FileEvidence:
    """Which ranks did not join a collective, or called another one than the others."""
    found = _mismatches(text)
    sizes = [each.fields.get("world size", "") for each in found]
    world = [int(size) for size in sizes if size.isdecimal() and len(size) < 7]
    return FileEvidence(
        sightings=tuple(sign for each in _first_of_each_group(found) for sign in _signs(each)),
        world_size=max(world, default=None),
    )


def _mismatches(text: str) -> list[_Unmatched]:
    found: list[_Unmatched] = []
    for raw in text.splitlines():
        line = raw[:_LONGEST_ANALYSIS_LINE].rstrip()
        if (begun := _BEGINS.match(line)) is not None:
            if len(found) == _MOST_RECORDS:
                break
            found.append(_Unmatched(int(begun["number"])))
        elif found and (told := _FIELD.match(line)) is not None:
            found[-1].fields.setdefault(told["name"], told["value"].strip())
    return found


def _first_of_each_group(found: list[_Unmatched]) -> Iterator[_Unmatched]:
    """The first of each group: what comes after it follows from it."""
    seen: set[str] = set()
    for each in sorted(found, key=lambda one: one.number):
        group = each.fields.get("group info", "")
        if group not in seen:
            seen.add(group)
            yield each


def not_joined(text: str) -> Iterator[Sighting]:
    """Who did not join the collective of which a text's first line and the fields below it tell."""
    for each in _mismatches(text)[:1]:
        yield from _signs_of_missing(each)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def _signs(mismatch: _Unmatched) -> Iterator[Sighting]:
    if "missing ranks" in mismatch.fields:
        yield from _signs_of_missing(mismatch)
    else:
        yield from differing(mismatch.fields.get("error msg", ""), _called_in_words(mismatch))


def _called_in_words(mismatch: _Unmatched) -> str:
    return f"{mismatch.fields.get('collective', 'collective')} #{mismatch.number}"


def _signs_of_missing(mismatch: _Unmatched) -> Iterator[Sighting]:
    missing = _RANKS.match(mismatch.fields.get("missing ranks", ""))
    if missing is not None:
        ranks = [int(rank) for rank in missing["ranks"].split(", ")]
        alone = ranks[0] if len(ranks) == 1 else None
        verb = "has not joined" if alone is not None else f"{ranks_text(ranks)} have not joined"
        yield _sign(f"{verb} {_called_in_words(mismatch)}, in which the others wait", alone)


def differing(error: str, called: str = "a collective") -> Iterator[Sighting]:
    """Who called something else than the others, by the analyser's message."""
    for culprit in _CULPRIT.finditer(error):
        details = f": {culprit['details']}" if culprit["details"] else ""
        kind = culprit["what"].replace("_", " ").lower()
        yield _sign(f"differs from the others in {called} ({kind}{details})", int(culprit["rank"]))


def _sign(what: str, rank: int | None) -> Sighting:
    return Sighting(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        vague=False,
        what=what,
        rank=rank,
        host=None,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=f"torch's analyser: {what}",
        captured={"analysed": "by torch"},
    )
