"""The two ways to ask: why a job failed, and what its lines say against its success.

`diagnose` takes the lines of all hosts and what the service says when a job has ended; `SuccessReader`
reads along while it is followed, for a job of which its place will say that it completed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from launcher.diagnosis.evidence.collect import combine_evidence
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.evidence.host_records import demote_untimely
from launcher.diagnosis.logs.attempts import cut_at_restart
from launcher.diagnosis.logs.events import unfold_events
from launcher.diagnosis.logs.lines import LogRecord, LogStream, parse, shown
from launcher.diagnosis.match.prefilter import alternation
from launcher.diagnosis.match.rows import rows_matching
from launcher.diagnosis.model import Diagnosis, Ending, table_of
from launcher.diagnosis.remedies import NOTHING_ASKED, AskedJob
from launcher.diagnosis.signatures import SIGNATURES
from launcher.diagnosis.signs.group_lines import WORLD_LITERALS, WorldSizes
from launcher.diagnosis.signs.reader import LogReader
from launcher.diagnosis.signs.sightings import Sighting, sighting_of, signs_of_service
from launcher.diagnosis.verdict.causes import attribute_failure
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage


def diagnose(
    lines: Iterable[LogRecord],
    failure_reason: str | None = None,
    *,
    streams: Iterable[LogStream] = (),
    secondary_status: str | None = None,
    ending: Ending | None = None,
    evidence: Iterable[FileEvidence] = (),
    job: AskedJob = NOTHING_ASKED,
) -> Diagnosis:
    """Why a job failed, or that it did not.

    `lines` are read once, those of one stream in their order, streams mixed in any way; then `streams`, one
    after the other. Structured loggers' objects are read as the messages in them. What is kept of all this
    does not grow with it. `failure_reason` and `secondary_status` are the service's (the phase of a
    JobStatus), `ending` is what the place says of the end. Of a job that completed nothing is called a root
    cause but that the ranks never met (DIST008), or that its losses are no numbers to the end (NUM001), which
    end no job: what the lines advise remains. What
    followed from a stop is no failure (see `verdict.causes`).
    `evidence` is what files besides the logs say; it is asked for when all lines have been read. `job` is
    what it was asked to be, whose numbers the remedy names.
    """
    ending = ending or Ending()
    late: Counter[str] = Counter()
    if ending.stop is not None and ending.stop.at is not None:
        lines = _counting_later(lines, ending.stop.at, late)
    if ending.restarted is not None:
        lines = cut_at_restart(lines, ending.restarted)
    reading = LogReader(job.processes_per_host).read(unfold_events(lines), streams)
    beside = combine_evidence([*evidence, FileEvidence(stacks=reading.stacks)])
    last, ended_well = reading.closing.last_time, bool(reading.ended_well)
    of_hosts = demote_untimely(beside.of_hosts, last, ended_well=ended_well)
    reading = replace(
        reading,
        sightings=[*reading.sightings, *beside.sightings, *of_hosts],
        ranks=table_of((*reading.ranks, *beside.rows)),
        unread=beside.unread,
        world_size=max(reading.world_size, beside.world_size or 0),
    )
    return attribute_failure(reading, signs_of_service(failure_reason, secondary_status), ending, late, job)


def _counting_later(lines: Iterable[LogRecord], at: float, late: Counter[str]) -> Iterator[LogRecord]:
    """The lines as they are; those of each host from that time on are counted."""
    for line in lines:
        if line.time is not None and line.time >= at:
            late[line.host] += 1
        yield line


_OF_WATCHDOG = re.compile(r"slipway: (?:warning: (?!gate:)|(?:NCCL004|DATA001|CKPT003) )")
_ROWS = [row for row in SIGNATURES if row.against_success or _OF_WATCHDOG.match(row.example)]
_GETS_ON = re.compile(r"^slipway: the ranks get on again, after (?P<code>[A-Z]{3,5}\d{3}) was told")
"""How the watchdog takes back what it said (slipway/watchdog/watch_ranks.py)."""

_LITERALS = re.compile(alternation([*(row.literal for row in _ROWS), "ranks get on again", *WORLD_LITERALS]))
_LONGEST_REMEDY = 1000


class SuccessReader:
    """Reads the lines of a job as they come, a few of them closely; `warnings` are for one that completed,
    `standing` for one that runs."""

    def __init__(self) -> None:
        self._worlds = WorldSizes()
        self._said: dict[str, Sighting] = {}
        self._standing: dict[str, Sighting] = {}
        self._index = 0

    def read(self, lines: Sequence[LogRecord]) -> None:
        """Take the next lines into account; those of one host in their order, hosts in any."""
        if _LITERALS.search("\n".join([line.text for line in lines]).lower()):
            for number, line in enumerate(lines):
                if _LITERALS.search(line.text.lower()):
                    self._look_at(line, self._index + number)
        self._index += len(lines)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Such as that the ranks never met (DIST008), that work was lost (CKPT007) or that losses were not
        finite (NUM001); each mode once, in the order in which they were first seen."""
        said = dict(self._said)
        if distribution.RANKS_NEVER_MET.code not in said and (apart := self._worlds.sign_of_no_meeting()):
            said[apart.code] = apart
        return tuple(_warning(sign) for sign in said.values())

    @property
    def standing(self) -> tuple[Finding, ...]:
        """What the boot and its watchdog have warned of and not taken back; the newest of each mode."""
        return tuple(_warning(sign) for sign in self._standing.values())

    def _look_at(self, line: LogRecord, index: int) -> None:
        parsed = parse(line.text)
        self._worlds.note_line(parsed, line.host, index, line.time)
        if (over := _GETS_ON.match(parsed.text)) is not None:
            self._standing.pop(over["code"], None)
        for row, captured in rows_matching(parsed.text, _ROWS):
            sign = sighting_of(row, captured, parsed, line.text, host=line.host, index=index, time=line.time)
            if row.against_success:
                self._said.setdefault(row.code, sign)
            self._standing[row.code] = sign


def _warning(sign: Sighting) -> Finding:
    return sign.mode.finding(
        Stage.LOG,
        shown(sign.what),
        remedy=None if sign.remedy is None else shown(sign.remedy, _LONGEST_REMEDY),
        severity=Severity.WARNING,
        subject=sign.subject,
    )
