"""What the charts of a page draw, as data: positions are seconds or lines since the beginning."""

from __future__ import annotations

from typing import Any

from launcher.report.activity import Writer
from launcher.report.run_report import RunReport
from launcher.report.telling import writer_name
from launcher.text.controls import without_controls


def charts_of(run: RunReport) -> dict[str, Any]:
    """The data of each chart, None where the run has nothing for it; rounded to what can be seen."""
    return {"timeline": timeline(run), "loss": _loss(run), "pace": _pace(run)}


def rows_of(run: RunReport) -> list[Writer]:
    """Who has a row on the timeline, from top to bottom: hosts in the order of their numbers, on each its
    lines without a rank and then its ranks, also those that printed nothing where it is known which these
    are."""
    rows = set(run.lines.activity.printed)
    ranks = {rank for _, rank in rows if rank is not None}
    job = run.job
    if ranks and job is not None and job.world_size is not None and job.processes_per_host:
        rows |= {
            (f"algo-{rank // job.processes_per_host + 1}", rank)
            for rank in range(job.world_size)
            if rank not in ranks
        }
    return sorted(rows, key=lambda row: (_natural(row[0]), -1 if row[1] is None else row[1]))


def timeline(run: RunReport) -> dict[str, Any] | None:
    """The rows with the spans in which they printed, the phases, and the incident; None without lines."""
    activity, incident = run.lines.activity, run.incident
    if not activity.printed:
        return None
    start = activity.start
    phases = run.job.phases if run.job is not None and run.lines.clock == "stream" else ()
    start = min([start, *(phase.started for phase in phases)])
    end = max([activity.end, *(phase.ended for phase in phases if phase.ended is not None)])
    rows = rows_of(run)
    spans = [
        [index, _round(first - start), _round(last - start)]
        for index, row in enumerate(rows)
        if row in activity.printed
        for first, last in activity.spans(row)
    ]
    return {
        "axis": "lines" if run.lines.clock is None else "seconds",
        "end": _round(end - start),
        "rows": [without_controls(writer_name(*row)) for row in rows],
        "spans": spans,
        "phases": [
            [
                without_controls(phase.name),
                _round(phase.started - start),
                _round((phase.ended or end) - start),
            ]
            for phase in phases
        ],
        "incident": None
        if incident is None or incident.at is None
        else {
            "at": _round(incident.at - start),
            "row": _row(rows, incident.host, incident.rank),
            "who": without_controls(writer_name(incident.host or "", incident.rank)),
        },
    }


def _loss(run: RunReport) -> dict[str, Any] | None:
    points = list(run.lines.loss.points())
    if len(points) < 2:
        return None
    steps = [point.step for point in points if point.step is not None]
    if len(steps) == len(points) and steps == sorted(steps):
        axis, places = run.lines.steps_are, steps
    elif run.lines.clock is not None and all(point.time is not None for point in points):
        start = run.lines.activity.start
        axis, places = "seconds", [(point.time or start) - start for point in points]
    else:
        axis, places = "lines", [float(point.order) for point in points]
    values = [[_round(at), point.value] for at, point in zip(places, points, strict=True)]
    return {"axis": axis, "name": without_controls(run.lines.loss_name), "values": values}


def _pace(run: RunReport) -> dict[str, Any] | None:
    points = list(run.lines.pace.points())
    if len(points) < 2:
        return None
    start = run.lines.activity.start
    return {
        "axis": "seconds",
        "unit": run.lines.steps_are,
        "several": len(run.lines.pace.ranks()) > 1,
        "values": [
            [_round(each.at - start), float(f"{each.slowest:.4g}"), float(f"{each.mean:.4g}"), each.rank]
            for each in points
        ],
    }


def _row(rows: list[Writer], host: str | None, rank: int | None) -> int | None:
    for index, row in enumerate(rows):
        if (row[1] == rank) if rank is not None else (row == (host, None)):
            return index
    return None


def _natural(name: str) -> tuple[int, str]:
    """Hosts in the order of their numbers; those without one come first."""
    digits = "".join(filter(str.isdecimal, name))[-9:]
    return (int(digits) if digits else -1, name)


def _round(value: float) -> float:
    return round(value, 2)
