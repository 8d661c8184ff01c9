"""The page: one HTML file that asks nothing of any network.

Whatever comes from a run is text: the templates escape all of it, control characters and marks that reorder
what follows are taken out or written as escapes, and a Content Security Policy allows the page's own two
scripts and its own style by their hashes and nothing else. The charts are data, which the page's script
draws: positions are seconds or lines since the beginning.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import resources
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from launcher.diagnosis.model import CollectiveCall, RankState, Verdict
from launcher.experiments.fabric_proof import ProofVerdict, judge_fabric
from launcher.failure_modes.model import Finding
from launcher.frozen import frozen
from launcher.report import sentences
from launcher.report.run_report import RunReport
from launcher.report.sentences import position_in_words, writer_name
from launcher.report.summaries import Writer
from launcher.text.values import elapsed_time, memory_in_words, without_controls

GENERATOR = "slipway report"
"""What the page's `generator` says: by this an earlier page is known that may be written over."""

_ROOM = "launcher.report"

_QUOTED = re.compile(r"`([^`\n]{1,300})`")


def page_of(run: RunReport) -> str:
    """The page of a run as HTML."""
    charts, proof = charts_of(run), proof_of(run)
    styles, script, library = _text("page.css"), _text("page.js"), _text("echarts/echarts.min.js")
    drawn = any(charts.values())
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            generator=GENERATOR,
            policy=_policy(styles, *([script, library] if drawn else [])),
            styles=Markup(styles),
            script=Markup(script),
            library=Markup(library),
            charts=charts,
            proof=proof,
            drawn=drawn,
            tell=sentences,
            ranks=all_ranks(run),
            differing=differing_ranks(run),
            followed=_followed(run),
            request=None if run.planned is None else _as_json(run.planned.request),
            job=None if run.planned is None else _as_json(run.planned.job),
            elapsed=elapsed_time,
            retry=sentences.RETRY[run.diagnosis.retry]
            if run.diagnosis.retry_known
            else sentences.RETRY_NOT_KNOWN,
        )
    )
    # Half a surrogate, which JSON allows, is no text of UTF-8.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def is_ours(beginning: str) -> bool:
    """Whether a file that begins so is a page of this module."""
    return f'<meta name="generator" content="{GENERATOR}' in beginning


def _followed(run: RunReport) -> list[tuple[str, Finding]]:
    """All findings of the diagnosis but the root cause, with what each is: a consequence, or a note
    beside."""
    diagnosis = run.diagnosis
    consequences = {id(finding) for finding in diagnosis.consequences}
    rest = diagnosis.findings[1 if diagnosis.root_cause else 0 :]
    told = [("followed" if id(each) in consequences else "also", each) for each in rest]
    known = {each.code for each in diagnosis.findings}
    return told + [("warning", each) for each in run.warnings if each.code not in known]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_ROOM, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    return environment


def _prose(text: str) -> Markup:
    """A text of ours or with words of a run in it: escaped, and what stands between backticks as code."""
    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(without_controls(text)))))


def _printable(value: Any) -> Any:
    """What a template prints; text of a run loses what would act on a reader instead of being shown."""
    return without_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _text(name: str) -> str:
    return resources.files(_ROOM).joinpath(name).read_text("utf-8")


def _policy(styles: str, *scripts: str) -> str:
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def charts_of(run: RunReport) -> dict[str, Any]:
    """The data of each chart, None where the run has nothing for it; rounded to what can be seen."""
    return {"timeline": timeline(run), "loss": _loss(run), "pace": _pace(run), "network": _network(run)}


def proof_of(run: RunReport) -> ProofVerdict | None:
    """What a proof of the network says; None of all other runs."""
    return None if run.lines.proof is None else judge_fabric(run.lines.proof)


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
        "each": sentences.one(run.lines.steps_are),
        "several": len(run.lines.pace.ranks()) > 1,
        "values": [
            [_round(each.at - start), float(f"{each.slowest:.4g}"), float(f"{each.mean:.4g}"), each.rank]
            for each in points
        ],
    }


def _network(run: RunReport) -> dict[str, Any] | None:
    verdict = proof_of(run)
    if verdict is None or not verdict.record.curve:
        return None
    limit = verdict.limit
    return {
        "sizes": [memory_in_words(point.bytes) for point in verdict.record.curve],
        "values": [float(f"{point.busbw:.4g}") for point in verdict.record.curve],
        "limit": None if limit is None else float(f"{limit:.4g}"),
        "enough": None if limit is None else float(f"{limit * verdict.record.at_least:.4g}"),
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


_EARLIER = 0.02
"""A last output counts as early where it is more than this part of the run before the others'."""


@frozen
class RanksTable:
    """The rows of some ranks in words, with the columns in which at least one of them has something."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def all_ranks(run: RunReport) -> RanksTable:
    """All ranks in their order."""
    return _rows_in_words(run, run.ranks)


def differing_ranks(run: RunReport) -> RanksTable:
    """The ranks that differ from most of the others, in their order."""
    return _rows_in_words(run, [state for state in run.ranks if _notes(run, state)])


def _rows_in_words(run: RunReport, states: Sequence[RankState]) -> RanksTable:
    columns = {
        "Rank": [str(state.rank) for state in states],
        "Host": [state.host or "" for state in states],
        "Differs by": [", ".join(_notes(run, state)) for state in states],
        "Last output": [
            "" if state.last_output is None else position_in_words(run, state.last_output) for state in states
        ],
        "Epoch" if run.lines.steps_are == "epoch" else "Step": [
            "" if state.step is None else f"{state.step:,}" for state in states
        ],
        "Collective called": [_collective(state.enqueued) for state in states],
        "Collective completed": [_collective(state.completed) for state in states],
        "Ended by": [state.exit or "" for state in states],
        "Process": [state.state or "" for state in states],
        "Last frame": [state.frame or "" for state in states],
    }
    told = {head: cells for head, cells in columns.items() if any(cells)}
    return RanksTable(tuple(told), tuple(zip(*told.values(), strict=True)))


def _notes(run: RunReport, state: RankState) -> tuple[str, ...]:
    return tuple(
        note
        for note, holds in (
            ("failed first", run.incident is not None and run.incident.rank == state.rank),
            ("silent early", _silent_early(run, state)),
            ("behind", _behind(run, state)),
            ("in another collective", _elsewhere(run, state)),
        )
        if holds
    )


def _silent_early(run: RunReport, state: RankState) -> bool:
    """Whether a rank that printed like the others stopped before them. The silence of one that rarely prints
    tells nothing, nor that of a run that is well; the one that failed first is silent since."""
    times = [each.last_output for each in run.ranks if each.last_output is not None]
    if state.last_output is None or len(times) < 2 or run.diagnosis.verdict is Verdict.HEALTHY:
        return False
    if run.incident is not None and run.incident.rank == state.rank:
        return False
    heard = {rank for _, rank in run.lines.activity.printed}
    if state.rank in heard and state.rank not in {rank for _, rank in sentences.regular_writers(run)}:
        return False
    activity = run.lines.activity
    margin = max(_EARLIER * (activity.end - activity.start), activity.width)
    return state.last_output < median(times) - margin


def _behind(run: RunReport, state: RankState) -> bool:
    steps = [each.step for each in run.ranks if each.step is not None]
    return state.step is not None and len(steps) > 1 and state.step < median(steps)


def _elsewhere(run: RunReport, state: RankState) -> bool:
    last = Counter(each.enqueued for each in run.ranks if each.enqueued is not None)
    if state.enqueued is None or len(last) < 2:
        return False
    usual, count = last.most_common(1)[0]
    return state.enqueued != usual and last[state.enqueued] < count


def _collective(collective: CollectiveCall | None) -> str:
    if collective is None:
        return ""
    number = "" if collective.sequence is None else f" #{collective.sequence}"
    group = "" if collective.group is None else f" in {collective.group}"
    elements = "" if collective.elements is None else f" of {collective.elements:,} elements"
    return f"{collective.name}{number}{group}{elements}"
