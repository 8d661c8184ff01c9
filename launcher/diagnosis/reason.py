"""What the service says of a failed job: FailureReason, and the secondary status."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from launcher.diagnosis.failure_reason import finding_of
from launcher.diagnosis.matching import rows_matching, weightiest
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.sighting import Sighting, filled, sighting_of
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.diagnosis.tracebacks import HEADER, names_exception
from launcher.failure_modes import training_script
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import FailureMode, Symptom

BEFORE_ALL_LINES = -1
"""The place of the reason among the lines of a log."""

_ROLES: Mapping[Symptom | None, LineRole] = {
    None: LineRole.INITIATOR,
    Symptom.EFFECT: LineRole.SYMPTOM,
    Symptom.ECHO: LineRole.CASCADE,
}
"""What a report of the container is in the story of the failure, by the symptom of its failure mode."""

_WHO = re.compile(r"^(?:rank (?P<rank>\d+)|torchrun)(?: on (?P<host>[\w.-]+))?: ", re.MULTILINE)
_SILENT = re.compile(r"exited with code \d+")
_SILENT_REMEDY = (
    "It printed no traceback: what it wrote last is in its log. In a shell script, `set -ex` below the first "
    "line prints each command and ends the script at the first that fails."
)
_COMMAND = 'Command "'
_CITATION, _AFTER_CITATION = 'ErrorMessage "', ('ExtraInfo "', _COMMAND)
"""What stands around what the images' toolkit cites; SageMaker cuts a reason at 1,024 characters."""

_PLACE = re.compile(r" \((?P<place>[^\s()]+:\d+)\)(?:\n|$)")


def signs_of(failure_reason: str | None, secondary_status: str | None = None) -> list[Sighting]:
    """The signs in what the service says; a diagnosis that the container's boot wrote comes first."""
    found = list(_of_boot(failure_reason))
    texts = [failure_reason or ""] if not found else []
    if secondary_status:
        texts.append(f"SecondaryStatus: {secondary_status}")
    for text in texts:
        found += _of_service(text)
    return found


def known_by_log(said: Sequence[Sighting], seen: Sequence[Sighting]) -> list[Sighting]:
    """The signs of the reason; an exception of the script which the log of its rank knows better, by lines
    that the boot does not read, is what it is there."""
    return [
        _known_by_log(sign, seen) if sign.mode is training_script.SCRIPT_RAISED else sign for sign in said
    ]


def _known_by_log(said: Sighting, seen: Sequence[Sighting]) -> Sighting:
    for sign in seen:
        of_it = sign.rank == said.rank and sign.what.startswith(said.what.rstrip("."))
        if of_it and sign.role is LineRole.INITIATOR and sign.mode is not training_script.SCRIPT_RAISED:
            return replace(said, mode=sign.mode, what=sign.what)
    return said


def _of_boot(failure_reason: str | None) -> Iterator[Sighting]:
    finding = finding_of(failure_reason)
    if finding is None:
        return
    headline, _, details = finding.message.partition("\n")
    who = _WHO.match(headline)
    place = _PLACE.search(finding.message)
    what = headline[who.end() :] if who else headline
    if place and what.endswith(place[0].rstrip()):
        what = what[: -len(place[0].rstrip())].rstrip()
    mode = CATALOGUE[finding.code]
    known, captured = _known_better(mode, what, details)
    mode = known.mode if known else mode
    remedy = filled(known.remedy, captured) if known and known.remedy else None
    if mode is training_script.SCRIPT_RAISED and _SILENT.fullmatch(what):
        remedy = _SILENT_REMEDY
    yield Sighting(
        mode=mode,
        role=_ROLES[mode.symptom],
        vague=False,
        what=what,
        rank=int(who["rank"]) if who and who["rank"] else None,
        host=who["host"] if who else None,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=headline,
        # Before a refused command line stands the parser's usage, of which the end tells nothing.
        details=() if mode is training_script.ENTRY_POINT_MISSING else tuple(details.splitlines()[-4:]),
        place=place["place"] if place else None,
        remedy=remedy,
        retry=known.retry if known else None,
    )


def _known_better(mode: FailureMode, what: str, details: str) -> tuple[Signature | None, Mapping[str, str]]:
    """The row that knows the error which the container reported: its own mode in other words, or more than
    that the script raised. Below the headline stand the lines that showed it."""
    for row, captured in rows_matching(what):
        if _is_definite(row) and (row.mode is mode or mode is training_script.SCRIPT_RAISED):
            return row, captured
    for line in reversed(details.splitlines()):
        for row, captured in rows_matching(parse(line).text):
            if _is_definite(row) and row.mode is mode:
                return row, captured
    return None, {}


def _is_definite(row: Signature) -> bool:
    return row.role is LineRole.INITIATOR and not row.vague


def _of_service(text: str) -> Iterator[Sighting]:
    found = weightiest([match for part in _parts(text) for match in rows_matching(part)])
    if found is not None:
        row, captured = found
        line = Line(parse(text).text)
        yield sighting_of(row, captured, line, "", host="", index=BEFORE_ALL_LINES, time=None)


def _parts(text: str) -> Iterator[str]:
    """A reason; what was raised, where the images' toolkit gives its own traceback as one, as its trainer.py
    does; and what it cites of the script's last lines: each line by itself, and with those below it. The
    toolkit's forerunner, sagemaker-containers, gives them below the command, without a mark."""
    yield text
    yield from filter(names_exception, text.partition(HEADER)[2].splitlines())
    _, mark, cited = text.partition(_CITATION)
    for end in _AFTER_CITATION:
        cited = cited.partition(end)[0]
    if not mark:
        cited = text.partition(_COMMAND)[2].partition("\n")[2]
    lines = cited.strip(' :"\n').splitlines()
    for number, line in enumerate(lines):
        yield line
        if lines[number + 1 :]:
            yield "\n".join(lines[number:])
