"""Where on the timeline the failure is."""

from __future__ import annotations

from launcher.diagnosis.model import RootCause
from launcher.report.context import ContextLine
from launcher.report.reading import RunLines
from launcher.report.run_report import MarkedIncident


def located(
    cause: RootCause | None, lines: RunLines
) -> tuple[MarkedIncident | None, tuple[ContextLine, ...]]:
    """The incident on the timeline, and the lines around the one that shows it.

    Where that line was not found, the place is the last output of the rank or host that failed, and the lines
    are the last ones of its host. Both are empty where there is no root cause.
    """
    if cause is None:
        return None, ()
    found = lines.context.around(cause.log_line, cause.host, cause.rank)
    shows = next((line for line in found if line.is_cause), None)
    if shows is not None:
        at = shows.time if lines.clock is not None else float(shows.order)
        who = cause.rank if cause.rank is not None else shows.rank
        return MarkedIncident(at, cause.host or shows.host or None, who, is_exact=at is not None), found
    last = [
        printed.last
        for (host, rank), printed in lines.activity.printed.items()
        if (rank == cause.rank if cause.rank is not None else host == cause.host)
    ]
    at = max(last, default=None)
    return MarkedIncident(at, cause.host, cause.rank, is_exact=False), lines.context.last_lines(cause.host)
