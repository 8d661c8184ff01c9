"""From the lines of a job's hosts, and what the service says of it, to why it failed."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.diagnosis.attribution import judge
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.reader import LogReader
from launcher.diagnosis.reason import signs_of
from launcher.diagnosis.record import LogRecord


def diagnose(
    lines: Iterable[LogRecord],
    failure_reason: str | None = None,
    *,
    secondary_status: str | None = None,
    succeeded: bool = False,
) -> Diagnosis:
    """Why a job failed.

    `lines` are read once, those of one host in their order, hosts mixed in any way; what is kept of them
    does not grow with their number. `failure_reason` and `secondary_status` are the service's (the phase of
    a JobStatus). With `succeeded` nothing is called a root cause but that the ranks never
    met (DIST008), which ends no job; what the lines advise remains.
    """
    return judge(LogReader().read(lines), signs_of(failure_reason, secondary_status), succeeded=succeeded)
