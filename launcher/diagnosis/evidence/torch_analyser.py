"""What PyTorch's own analyser of flight recorders prints (`torchfrtrace`, `python -m tools.flight_recorder`).

Texts: tools/flight_recorder of PyTorch 2.5 to 2.7 and torch/distributed/flight_recorder of 2.8 to 2.13: for
each collective that does not match a record of `name: value` lines, with the ranks that did not join it, or
a culprit and what differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.text.rank_ranges import ranks_text

_LONGEST_LINE = 4000
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
    """A collective that does not match: its number in its group, and the fields that are told of it."""

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
        sightings=tuple(sign for each in _first(found) for sign in _signs(each)),
        world_size=max(world, default=None),
    )


def _mismatches(text: str) -> list[_Unmatched]:
    found: list[_Unmatched] = []
    for raw in text.splitlines():
        line = raw[:_LONGEST_LINE].rstrip()
        if (begun := _BEGINS.match(line)) is not None:
            if len(found) == _MOST_RECORDS:
                break
            found.append(_Unmatched(int(begun["number"])))
        elif found and (told := _FIELD.match(line)) is not None:
            found[-1].fields.setdefault(told["name"], told["value"].strip())
    return found


def _first(found: list[_Unmatched]) -> Iterator[_Unmatched]:
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
        yield from _missing(each)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def _signs(mismatch: _Unmatched) -> Iterator[Sighting]:
    if "missing ranks" in mismatch.fields:
        yield from _missing(mismatch)
    else:
        yield from differing(mismatch.fields.get("error msg", ""), _called(mismatch))


def _called(mismatch: _Unmatched) -> str:
    return f"{mismatch.fields.get('collective', 'collective')} #{mismatch.number}"


def _missing(mismatch: _Unmatched) -> Iterator[Sighting]:
    missing = _RANKS.match(mismatch.fields.get("missing ranks", ""))
    if missing is not None:
        ranks = [int(rank) for rank in missing["ranks"].split(", ")]
        alone = ranks[0] if len(ranks) == 1 else None
        verb = "has not joined" if alone is not None else f"{ranks_text(ranks)} have not joined"
        yield _sign(f"{verb} {_called(mismatch)}, in which the others wait", alone)


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
