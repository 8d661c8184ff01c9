"""The sentences of a page: what happened, what is known, what is not, and what each chart shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from launcher.diagnosis.logs.tracebacks import HEADER
from launcher.diagnosis.model import CheckOutcome, Confidence, Sureness, Verdict
from launcher.experiments.fabric_proof import ProofVerdict, in_gb, in_percent
from launcher.failure_modes import interruption
from launcher.failure_modes.model import Retry
from launcher.report.run_report import GLOG, ISO, RunPhase, RunReport
from launcher.report.summaries import RankPace, Writer, slowest_of
from launcher.text.values import elapsed_time, list_in_words, list_some, memory_in_words

MOST_ROWS = 50
"""Rows of a table that stands for a chart."""

_NAMED = 12

RETRY = {
    Retry.NEVER: "Do not run it again as it is: it would fail again.",
    Retry.SAME: "Run it again as it is: the failure was passing.",
    Retry.OTHER_HOSTS: "Run it again on other hosts: a new job gets new ones, the same warm pool does not.",
    Retry.LATER: "Run it again later: AWS could not give what was asked for.",
}
"""Whether to run again, as advice."""

RETRY_NOT_KNOWN = "Nobody can say: the error itself is not in the log."


_ENDED = {
    "Completed": "completed{after}, but its lines show a failure",
    "Stopped": "was stopped{after}, and its lines show a failure before that",
}
"""What became of a job that failed by what its lines show."""

_NAMES_RANK = re.compile(r"\branks? \d")

CHECKED = {
    CheckOutcome.WRONG: "error",
    CheckOutcome.NOT_VERIFIED: "warning",
    CheckOutcome.RIGHT: "good",
}
"""The style of what the account shows."""


def sureness_in_words(sureness: Sureness) -> str:
    """How sure the root cause is, and why."""
    said = {
        Confidence.SURE: "Yes",
        Confidence.LIKELY: "Likely, not sure",
        Confidence.UNSURE: "No",
    }[sureness.confidence]
    return f"{said}: {sureness.why}."


def what_happened(run: RunReport) -> str:
    """The run in one sentence."""
    job, diagnosis = run.job, run.diagnosis
    cause = diagnosis.root_cause
    after = f" after {elapsed_time(job.seconds)}" if job and job.seconds is not None else ""
    if job is not None and not job.has_ended:
        so_far = f"and shows a failure: {cause.finding.message}" if cause else "and nothing has failed so far"
        during = f" for {elapsed_time(job.seconds)}" if job.seconds is not None else ""
        return sentence(f"{run.name} is {job.ended_as}{during}, {so_far}")
    if diagnosis.verdict is Verdict.FAILED and cause is not None:
        ended = _ENDED.get(job.ended_as if job is not None else "", "failed{after}")
        return sentence(f"{run.name} {ended.format(after=after)}: {cause.finding.message}")
    if diagnosis.verdict is Verdict.STOPPED:
        why = f": {cause.finding.message}" if cause is not None else ""
        return sentence(f"{run.name} was stopped{after}{why}")
    if diagnosis.verdict is Verdict.UNKNOWN and interruption.STOPPED.code in {
        each.code for each in diagnosis.findings
    }:
        return sentence(f"{run.name} was stopped{after}: {diagnosis.summary}")
    if diagnosis.verdict is Verdict.UNKNOWN:
        what = "failed" if job is not None else "may have failed"
        return f"{run.name} {what}{after}, and what its logs say of the cause is not understood."
    if job is not None:
        return f"{run.name} completed{after}."
    return f"No failure was found in {run.name}."


def describe_known(run: RunReport) -> Iterator[str]:
    """What the page rests on."""
    lines, activity = run.lines, run.lines.activity
    ranks = sorted({rank for _, rank in activity.printed if rank is not None})
    hosts = {host for host, _ in activity.printed if host}
    who = [count_in_words(len(ranks), "rank")] if ranks else []
    who += (
        [f"on {count_in_words(len(hosts), 'host')}" if who else count_in_words(len(hosts), "host")]
        if hosts
        else []
    )
    printed = f" of {' '.join(who)}" if who else ""
    if lines.lines and lines.clock is not None:
        span = elapsed_time(activity.end - activity.start)
        yield f"{count_in_words(lines.lines, 'line')}{printed} were read, which span {span}."
    elif lines.lines:
        yield f"{count_in_words(lines.lines, 'line')}{printed} were read."
    incident = run.incident
    if incident is not None and incident.at is not None:
        where = position_in_words(run, incident.at)
        if incident.is_exact:
            yield f"The line that shows the failure stands at {where}."
        else:
            yield f"The last output of {_who(incident.host, incident.rank)} stands at {where}."
    if (pace := slowest_of(lines.pace.ranks())) is not None:
        yield f"{slowest_in_words(run) or ''} ({pace.steps:g} {lines.steps_are}s)"


def describe_unknown(run: RunReport) -> Iterator[str]:
    """What the page cannot tell, and why."""
    lines, activity, cause = run.lines, run.lines.activity, run.diagnosis.root_cause
    if not lines.lines:
        yield "There are no log lines: what the ranks did is not known."
        return
    if lines.clock is None:
        yield "There are no times in the log: the timeline shows order only, and step times are not known."
    elif lines.clock == ISO:
        yield "The times are those that the lines print, with the clock and the zone of their hosts."
    elif lines.clock == GLOG:
        yield "The times that the lines print have no year; the page counts from the first one."
    yield from _silent_ranks(run)
    failed = cause is not None and cause.rank is None and run.diagnosis.verdict is Verdict.FAILED
    if failed and not _NAMES_RANK.search(cause.finding.message if cause else ""):
        yield "Which rank failed first is not known."
    incident = run.incident
    if incident is not None and not incident.is_exact:
        if incident.at is None:
            yield "When it failed is not known."
        else:
            yield (
                f"When it failed is known only by the last output of {_who(incident.host, incident.rank)}: "
                "the line that tells of it has no place on the timeline."
            )
    if not lines.loss.seen and lines.bad_loss is None:
        yield "No loss was found in the lines."
    if not lines.pace.writers and lines.clock is not None:
        yield "No step counter was found in the lines with times, so step times are not known."
    elif lines.clock is not None and len(lines.pace.ranks()) < 2 and len(activity.printed) > 1:
        writers = ", ".join("a line without a rank" if w is None else f"rank {w}" for w in lines.pace.writers)
        yield f"Steps are printed by {writers} alone: which rank is slowest is not known."
    if run.planned is None:
        yield (
            "The plan of this run is not on this machine: findings, settings and the request are not shown."
            if run.job is not None
            else "Log files tell nothing of the plan: phases, cost, settings and the request are not shown."
        )


def _silent_ranks(run: RunReport) -> Iterator[str]:
    ranks = {rank for _, rank in run.lines.activity.printed if rank is not None}
    world = run.job.world_size if run.job is not None else None
    if not ranks:
        timed = "" if run.lines.clock is None else " with a time"
        yield f"No line{timed} tells which rank printed it: the timeline has a row for each host."
        return
    expected = world if world is not None else max(ranks) + 1
    silent = [rank for rank in range(expected) if rank not in ranks]
    if silent and world is not None:
        rows = "it" if len(silent) == 1 else "them"
        yield f"{_ranks(silent)} of {world} printed nothing: the timeline shows {rows} empty."
    elif silent:
        yield f"{_ranks(silent)} printed nothing, as far as the lines tell; how many there are is not known."


def timeline_in_words(run: RunReport) -> str:
    """What the timeline shows, for who does not see it."""
    activity, incident = run.lines.activity, run.incident
    if not activity.printed:
        return "Nothing was printed."
    text = f"{count_in_words(len(activity.printed), 'row')}."
    talkers = sorted(regular_writers(run), key=lambda writer: activity.printed[writer].last)
    if len(talkers) > 1 and run.diagnosis.verdict is not Verdict.HEALTHY:
        text += f" First to fall silent: {_last_of(run, talkers[0])}; last: {_last_of(run, talkers[-1])}."
    else:
        latest = max(activity.printed, key=lambda writer: activity.printed[writer].last)
        text += f" The last output: {_last_of(run, latest)}."
    if incident is not None and incident.at is not None:
        text += f" The incident is marked at {position_in_words(run, incident.at)}."
    return text


def regular_writers(run: RunReport) -> list[Writer]:
    """Who printed as much as others of its kind: only of these a silence tells anything. Ranks where lines
    tell them, else hosts."""
    printed = run.lines.activity.printed
    writers = [writer for writer in printed if writer[1] is not None] or list(printed)
    usual = median([printed[writer].lines for writer in writers]) if writers else 0
    return [writer for writer in writers if printed[writer].lines >= usual / 2]


def _last_of(run: RunReport, writer: Writer) -> str:
    at = run.lines.activity.printed[writer].last
    return f"{writer_name(*writer)}, at {position_in_words(run, at)}"


def silence_in_words(run: RunReport) -> str:
    """How fine the timeline is."""
    silence = run.lines.activity.silence
    if run.lines.clock is None:
        return (
            f"A gap is where a rank printed none of {count_in_words(max(1, int(silence)), 'line')} or more."
        )
    return f"A gap is a silence of more than {_seconds(silence)}; shorter ones are not drawn."


def loss_in_words(run: RunReport) -> str | None:
    """What the chart of the loss shows; None without a loss."""
    lines = run.lines
    points = list(lines.loss.points())
    if not points:
        return None
    low = min(points, key=lambda point: point.value)
    text = (
        f"{lines.loss_name} from {points[0].value:.6g} to {points[-1].value:.6g}, "
        f"lowest {low.value:.6g}, over {count_in_words(lines.loss.seen, 'value')}"
    )
    text += f" of rank {lines.loss_rank}." if lines.loss_rank is not None else "."
    if not lines.loss.is_whole:
        text += " Of each piece the lowest and the highest value are drawn."
    return text


def curve_rows(verdict: ProofVerdict) -> list[tuple[str, ...]]:
    """The curve of a proof: size, time, bus bandwidth, and the part of the limit."""
    return [
        (
            memory_in_words(point.bytes),
            f"{1000 * point.seconds:,.2f} ms",
            in_gb(point.busbw),
            in_percent(point.busbw / verdict.limit) if verdict.limit else "",
        )
        for point in verdict.record.curve
    ]


def pair_rows(verdict: ProofVerdict) -> list[tuple[str, ...]]:
    """The pairs of hosts of a proof, the slowest first."""
    slow = set(verdict.slow_hosts)
    return [
        (*pair.hosts, in_gb(pair.busbw), ", ".join(host for host in pair.hosts if host in slow))
        for pair in sorted(verdict.record.pairs, key=lambda each: each.busbw)
    ]


def storage_rows(verdict: ProofVerdict) -> list[tuple[str, ...]]:
    """What each place gave each host of a proof."""
    return [
        (place.what, host, in_gb(place.write[host]), in_gb(place.read[host]) if host in place.read else "")
        for place in verdict.record.storage
        for host in place.write
    ]


def bad_loss_in_words(run: RunReport) -> str | None:
    """That a loss was no number; None where all were."""
    bad = run.lines.bad_loss
    if bad is None:
        return None
    step = "" if bad.point.step is None else f" at {run.lines.steps_are} {bad.point.step:g}"
    return f"The loss was {bad.value}{step} for the first time (line {bad.point.order})."


def slowest_in_words(run: RunReport) -> str | None:
    """Which rank is the slowest; None where that is not known."""
    paces, unit = run.lines.pace.ranks(), run.lines.steps_are
    if not paces:
        return None
    if len(paces) == 1:
        only = paces[0]
        return f"Rank {only.rank} took {_seconds(only.seconds)} {one(unit)} in the mean."
    slowest = slowest_of(paces)
    if slowest is None:
        return f"The ranks took {_seconds(paces[0].seconds)} {one(unit)} in the mean, none clearly longer."
    middle = sorted(each.seconds for each in paces)[len(paces) // 2]
    return (
        f"Rank {slowest.rank} is the slowest: {_seconds(slowest.seconds)} {one(unit)} in the mean, "
        f"{_seconds(middle)} in the middle of {len(paces)} ranks."
    )


def cost_in_sentence(run: RunReport) -> str | None:
    """What the run cost; None where nothing is known of it."""
    job, planned = run.job, run.planned
    if job is None:
        return None
    if job.runs_here:
        return "It ran on this machine and cost nothing."
    if not job.bills:
        return "It ran on hosts of which no price is known here."
    if job.has_ended and job.usd is not None and job.billed is not None:
        plan = "" if planned is None else f" Planned: {planned.cost}."
        return f"{job.usd:,.2f} USD for {elapsed_time(job.billed)} that each host is billed for.{plan}"
    if planned is None or planned.usd_per_hour is None or job.seconds is None:
        return "What it cost is not known." if planned is None else f"Planned: {planned.cost}."
    usd = planned.usd_per_hour * job.seconds / 3600
    return (
        f"At most {usd:,.2f} USD for {elapsed_time(job.seconds)} since its start, waiting included. "
        f"Planned: {planned.cost}."
    )


def billed_time_in_sentence(run: RunReport) -> str | None:
    """What the billed time went to; None where that is not known."""
    parts = [(part, seconds) for part, seconds in (run.job.parts if run.job else {}).items() if seconds >= 1]
    if not parts:
        return None
    words = [f"{elapsed_time(seconds)} {_PARTS.get(part, part)}" for part, seconds in parts]
    return f"It went to: {list_in_words(words, 'and')}."


_PARTS = {
    "useful": "of training",
    "download": "of downloads",
    "gate": "in the health gate",
    "start": "to the first step",
    "stall": "without a step",
    "lost": "of steps that are lost unless another attempt goes on from them",
    "unknown": "that its lines do not explain",
}
"""The parts of billed time (`launcher.session.runs.measure_goodput`) in words, of a job alone."""


def position_in_words(run: RunReport, at: float) -> str:
    """A place on the timeline, such as `+12m03s (20:14:05)` or `line 120`."""
    lines = run.lines
    if lines.clock is None:
        return f"line {at:.0f}"
    since = f"+{elapsed_time(at - lines.activity.start)}"
    if lines.clock == GLOG:
        return since
    moment = datetime.fromtimestamp(at, UTC)
    return f"{since} ({moment:%H:%M:%S}{'' if lines.clock == ISO else ' UTC'})"


def thin_rows(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """At most MOST_ROWS rows of many, evenly chosen, with the first and the last one."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    return [rows[index * (len(rows) - 1) // (MOST_ROWS - 1)] for index in range(MOST_ROWS)]


def pace_rows(paces: Sequence[RankPace]) -> list[tuple[str, str, str]]:
    """The rows of the table of the ranks' step times."""
    return [(str(each.rank), f"{each.seconds:.4g}", f"{each.steps:g}") for each in paces]


def phase_rows(phases: Sequence[RunPhase]) -> list[tuple[str, str, str]]:
    """The rows of the table of phases."""
    return [
        (
            each.name,
            day(each.started),
            "now" if each.ended is None else elapsed_time(each.ended - each.started),
        )
        for each in phases
    ]


def day(seconds: float) -> str:
    """A moment of a clock in UTC, to the second."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def writer_name(host: str, rank: int | None) -> str:
    """Such as `rank 3 on algo-2`, or `algo-2` for lines that tell no rank."""
    return _who(host, rank)


def one(unit: str) -> str:
    """Such as `a step` and `an epoch`."""
    return f"{'an' if unit[:1] in 'aeiou' else 'a'} {unit}"


def context_title(run: RunReport) -> str:
    """What the lines are that the page shows: a traceback, those around the cause, or the last ones."""
    if not any(line.is_cause for line in run.context):
        return "The last lines"
    return "The traceback" if HEADER in run.context[0].text else "In the log"


def loss_rows(values: Sequence[Sequence[float]]) -> list[tuple[str, str]]:
    """The rows of the table of losses."""
    return [(f"{at:.10g}", f"{loss:.6g}") for at, loss in thin_rows(values)]


def count_in_words(number: int, word: str) -> str:
    """Such as `1 rank` and `1,024 ranks`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _who(host: str | None, rank: int | None) -> str:
    if rank is None:
        return host or "the log"
    return f"rank {rank} on {host}" if host else f"rank {rank}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {list_some([*map(str, ranks)], _NAMED)}"


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 60 else elapsed_time(seconds)


def sentence(text: str) -> str:
    """The text with a full stop at its end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
