"""Whether a job stood still: its output went on in a rhythm, and then nothing came for long, or no step.

Only times tell it. Who prints an epoch in an hour is quiet for an hour: a silence counts that is much longer
than those before it. A log alone cannot show that a job stood still after its last line, but what started the
script can: the images' toolkit always says how it ended. So can the place where it still runs: then the time
at which that was asked is when the silence ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.diagnosis.closing import of_those, silent_first
from launcher.diagnosis.ending import Stop, StopCause
from launcher.diagnosis.last_lines import Closing, LastLine
from launcher.diagnosis.ranks import NOT_LATELY, RankState
from launcher.diagnosis.rendezvous_store import waiting_at_end
from launcher.text.durations import duration_in_words
from launcher.text.moments import moment_in_words

_SILENT_FOR = 600.0
"""Seconds, PyTorch's timeout of a NCCL process group (torch/distributed/constants.py of 2.2 and later)."""

_WITHOUT_STEP_FOR = 1800.0
"""Seconds in which other lines may come and no step, as while a model is evaluated or saved."""

_FEWEST = 4
"""Lines, or steps, that show a rhythm."""

_SILENCES = 3
_PAUSES = 10
"""A silence counts when it is so many times as long as any before it, a pause of the steps when it is so many
times as long."""

_SHARED = "stream"
"""The clock of the streams, which all hosts share; what hosts print may be hours apart."""

_BY_LIMIT = (StopCause.MAX_RUNTIME, StopCause.MAX_WAIT)


@dataclass(frozen=True, slots=True)
class _Voice:
    """Who prints into a stream, and when: the `times` of all its last lines, and of the `steps` among them.

    `clock` is the stream's, or a host's own.
    """

    name: str
    clock: str
    times: tuple[float, ...]
    steps: tuple[float, ...]
    rank: int | None = None


def silent_before(
    closing: Closing, stop: Stop | None, ranks: Sequence[RankState], *, whole: bool
) -> str | None:
    """That a job had long been silent when a limit of its time ended it, in words; None where it was not."""
    if stop is None or stop.cause not in _BY_LIMIT or stop.at is None:
        return None
    of_stream = [each for each in _voices(closing, ()) if each.clock == _SHARED]
    last = max((each.times[-1] for each in of_stream), default=None)
    if last is None or not any(_is_long(stop.at - each.times[-1], each.times) for each in of_stream):
        return None
    if stop.at - last < _SILENT_FOR:
        return None
    limit = "limits.max_runtime" if stop.cause is StopCause.MAX_RUNTIME else "limits.max_wait"
    first = _first_silent(of_stream, ranks, whole)
    return (
        f"nothing failed before {limit} ended it, but it stood still: the last output came at "
        f"{moment_in_words(last)}, {duration_in_words(stop.at - last)} before"
    ) + (f"; {first}" if first else "")


def hangs(
    closing: Closing,
    trains_at: float | None,
    ended_well: Collection[str],
    ranks: Sequence[RankState],
    *,
    whole: bool,
) -> str | None:
    """That a job which still trained at that time goes on no more, in words; None where it does, or where
    nothing tells.

    `ended_well` are the streams that say that training came to its end, `ranks` what is known of each rank,
    `whole` as in `silent_first`. Where anybody makes steps, all is well.
    """
    of_stream = [each for each in _voices(closing, ended_well) if each.clock == _SHARED]
    if trains_at is None or not of_stream:
        return None
    last = max(each.times[-1] for each in of_stream)
    silence = trains_at - last
    if silence >= _SILENT_FOR:
        if not any(_is_long(trains_at - each.times[-1], each.times) for each in of_stream):
            return None
        first = _first_silent(of_stream, ranks, whole) or silent_first(ranks, whole=whole)
        told = f"it still runs, but nothing was printed for {duration_in_words(silence)}"
        return f"{told}; {first}" if first else told
    counting = [each for each in of_stream if len(each.steps) >= _FEWEST]
    ahead = max(counting, key=lambda each: each.steps[-1], default=None)
    if ahead is None or not _is_without_step(trains_at - ahead.steps[-1], ahead.steps):
        return None
    pause = duration_in_words(trains_at - ahead.steps[-1])
    first = _first_silent(of_stream, ranks, whole) or silent_first(ranks, whole=whole)
    told = f"it still runs and prints, but nobody made a step for {pause}"
    return f"{told}; {first}" if first else told


def stands_still(
    closing: Closing,
    unfinished: Sequence[str],
    ended_well: Collection[str],
    ranks: Sequence[RankState],
    *,
    whole: bool,
) -> str | None:
    """What in the ends of the streams shows that a job did not go on to its end, in words; None: nothing.

    `unfinished` are the streams in which a script was started whose end is always told and is not there,
    `ended_well` those that say that training came to its end.
    """
    voices = _voices(closing, ended_well)
    waiting = waiting_at_end(lines for name, lines in closing.streams.items() if name not in ended_well)
    first = waiting or _first_silent(voices, ranks, whole)
    if first is not None:
        return first
    for each in voices:
        if len(each.steps) < _FEWEST:
            continue
        pause = each.times[-1] - each.steps[-1]
        if _is_without_step(pause, each.steps):
            return f"{each.name} made no step in its last {duration_in_words(pause)}, but printed on"
    if any(name not in ended_well for name in unfinished):
        return "the toolkit started the script and says nothing of its end: the log stops in the middle"
    return None


def _first_silent(voices: Sequence[_Voice], ranks: Sequence[RankState], whole: bool) -> str | None:
    """Who counted steps and fell silent long before the last output of all; ranks that are in no last line
    were silent before."""
    for clock in sorted({each.clock for each in voices}):
        alike = [each for each in voices if each.clock == clock]
        end = max(each.times[-1] for each in alike)
        for each in sorted(alike, key=lambda voice: (voice.times[-1], voice.name)):
            if len(each.steps) >= _FEWEST and _is_long(end - each.times[-1], each.times):
                if each.rank is not None and any(row.state == NOT_LATELY for row in ranks):
                    return silent_first(ranks) or f"{each.name} fell silent"
                gap = duration_in_words(end - each.times[-1])
                those = of_those(whole or each.rank is None)
                return f"{those}{each.name} fell silent first, {gap} before the last output of all"
    return None


def _is_long(silence: float, times: Sequence[float]) -> bool:
    return len(times) >= _FEWEST and silence >= max(_SILENT_FOR, _SILENCES * _longest(times))


def _is_without_step(pause: float, steps: Sequence[float]) -> bool:
    return pause >= max(_WITHOUT_STEP_FOR, _PAUSES * _longest(steps))


def _longest(times: Sequence[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def _voices(closing: Closing, but: Collection[str]) -> list[_Voice]:
    """Who prints into the streams, each with the times on the clock of its last line."""
    by_writer: dict[tuple[str, int | None], list[LastLine]] = {}
    for name, lines in closing.streams.items():
        for each in lines if name not in but else ():
            by_writer.setdefault((name, each.line.rank), []).append(each)
    return [voice for (name, rank), lines in by_writer.items() if (voice := _voice(name, rank, lines))]


def _voice(name: str, rank: int | None, lines: Sequence[LastLine]) -> _Voice | None:
    clock = next((each.clock for each in reversed(lines) if each.clock is not None), None)
    timed = [(each.time, each) for each in lines if each.clock == clock and each.time is not None]
    if clock is None or not timed:
        return None
    host = timed[-1][1].host or name
    who = f"rank {rank}" if rank is not None else host or "the job"
    return _Voice(
        who,
        clock if clock == _SHARED else f"{clock} of {host}",
        tuple(sorted(time for time, _ in timed)),
        tuple(sorted(time for time, each in timed if each.goes_on)),
        rank,
    )
