"""From the lines of a job's hosts, and what the service says of it, to why it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from launcher.diagnosis.attempts import cut_at_restart
from launcher.diagnosis.attribution import judge
from launcher.diagnosis.ending import Ending
from launcher.diagnosis.evidence.found import together
from launcher.diagnosis.evidence.kernel_log import timely
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.formats.json_events import unfolded
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.ranks import table_of
from launcher.diagnosis.reader import LogReader
from launcher.diagnosis.reason import signs_of
from launcher.diagnosis.record import LogRecord, LogStream
from launcher.diagnosis.remedies.asked_job import NOTHING_ASKED, AskedJob


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
    cause but that the ranks never met (DIST008), which ends no job: what the lines advise remains. What
    followed from a stop is no failure (see `stops`).
    `evidence` is what files besides the logs say; it is asked for when all lines have been read. `job` is
    what it was asked to be, whose numbers the remedy names.
    """
    ending = ending or Ending()
    late: Counter[str] = Counter()
    if ending.stop is not None and ending.stop.at is not None:
        lines = _counting_later(lines, ending.stop.at, late)
    if ending.restarted is not None:
        lines = cut_at_restart(lines, ending.restarted)
    reading = LogReader(job.processes_per_host).read(unfolded(lines), streams)
    beside = together([*evidence, FileEvidence(stacks=reading.stacks)])
    reading.sightings.extend(beside.sightings)
    last, ended_well = reading.closing.last_time, bool(reading.ended_well)
    reading.sightings.extend(timely(beside.of_hosts, last, ended_well=ended_well))
    reading.ranks = table_of((*reading.ranks, *beside.rows))
    reading.unread = beside.unread
    reading.world_size = max(reading.world_size, beside.world_size or 0)
    return judge(reading, signs_of(failure_reason, secondary_status), ending, late, job)


def _counting_later(lines: Iterable[LogRecord], at: float, late: Counter[str]) -> Iterator[LogRecord]:
    """The lines as they are; those of each host from that time on are counted."""
    for line in lines:
        if line.time is not None and line.time >= at:
            late[line.host] += 1
        yield line
