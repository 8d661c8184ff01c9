"""How the streams of a log end: whether that shows a job that is well, one that stood still, or neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from launcher.diagnosis.logs.lines import TAIL
from launcher.diagnosis.match.rows import rows_matching
from launcher.diagnosis.model import RankState, Stop, StopCause
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.group_lines import waiting_at_end
from launcher.diagnosis.signs.ranks import NOT_LATELY
from launcher.diagnosis.signs.readings import DATED, Closing, LastLine
from launcher.diagnosis.signs.sightings import Sighting, is_dealt_with
from launcher.failure_modes import hardware, nccl, training_compiler
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.text.values import duration_in_words, moment_in_words, ranks_text

# How the streams of a log end: whether that shows a job that is well, and what in it nobody has explained.
#
# Nothing is called healthy because nothing known was met in it. Something has to show it: the word that
# training came to its end, a counter or a bar that went on to the last lines, or last lines that their
# writer marks as information. What follows that and speaks of an error is not explained by it.


MOST_UNUSUAL = 5
"""Lines that are shown of what nobody has explained."""

_RANK_SILENT_FOR = 30.0
"""Seconds by which a rank must fall silent before all others do to be named for it."""

_ENDED = re.compile(
    r"\bexit(?:ed)?(?: with)?(?: code| status)?:? 0\b(?!\.)|\bworker group successfully finished\b"
    r"|\bprocess(?:es)? finished successfully\b|\bnormal program exit\b|\bbefore program exit\b"
    r"|\bto finish\.\.\. \(success\)|\bCompleted - Training job completed$|^Billable seconds: \d",
    re.I,
)
_OF_ENDS = ("exit", "success", "job completed", "billable")
"""Of these one stands in each such text; a hundred lines are asked for them at once."""


_MARKED = re.compile(
    r"(?<!=)\b(?:INFO|DEBUG|NOTICE|(?<!NCCL )WARN|WARNING)\b|^\[?[IW]\d{3,4} |<(?:info|warn)>|Warning:"
    r"|^warning:|^#(?!\d{1,4} )|^\[New Thread |Exception ignored in"
)
"""How a program marks a line as information or a warning. With NCCL, WARN is the level of errors."""

_BEGINNING = 300
_RECORD = 4
"""Lines that a record of a marked line may have, such as a warning with its explanation."""

_LEADS_TO = 20
"""Lines before an exception that speak of it: its traceback, and the words with which it was logged."""

_WAITS = re.compile(r"\bInit START\b|\bRendezvous'ing\b|\b[Ww]aiting (?:for|on|in)\b|\bconnecting to\b", re.I)
"""What begins something that has an end of its own: a log that ends with it just stops."""

_SPEAKS_OF_ERROR = re.compile(
    r"error\b|exception\b|\b(?:fatal|panic|failed|failure|abort(?:ed|ing)?|segfault|core dumped"
    r"|kill(?:ed|ing)|cannot|could(?: not|n't)|unable to|denied|corrupt(?:ed)?|invalid|refused"
    r"|unreachable|timed out|timing out|time-?out:|mismatched|sig(?:kill|segv|abrt|bus|hup)|cancelled"
    r"|segmentation fault)\b"
    # The levels of errors of glog and NCCL, and what is no number.
    r"|^\s{0,40}\[?E(?:\d{3,4})? (?:[\d:.]{8,20} (?:\d{1,9} )?)?\S{1,80}:\d|\bNCCL WARN\b"
    r"|\bloss['\"]?[:= ]{1,3}nan\b",
    re.I,
)
_NO_ERROR = re.compile(
    r"\b(?:no|0|without) (?:errors?|failures?|exceptions?)\b"
    r"|(?:errors?|fail(?:ed|ures?)|exceptions?)[\w ]{0,20}[:=] ?0(?:\.0+)?%?(?![\d.])"
    r"|[_ /](?:error|err) ?[:=] ?-?\d|\berror(?:[_ ]rate)? ?[:=] ?-?\d"
    r"|NCCL WARN Failed to open libibverbs",
    re.I,
)
"""What speaks of no error. Without a library of InfiniBand NCCL takes sockets."""
_DIGITS = re.compile(r"\d+|0x[0-9a-f]+")

_CONTINUED = (" ", "\t")


@frozen
class Impression:
    """Whether the ends of all streams show that all is well, and what speaks against it."""

    healthy: bool
    unusual: tuple[str, ...]
    """The last lines that nobody has explained, with who printed them."""


def judge_ends(closing: Closing, explained: Sequence[Sighting], ended_well: Collection[str]) -> Impression:
    """What the ends of the streams show.

    `explained` are the signs that are told elsewhere, with the lines that lead to them; `ended_well` the
    streams that say that training came to its end: what such a process prints coming down says nothing.
    """
    shapes = {masked_numbers(sign.text) for sign in explained}
    odd: list[LastLine] = []
    well = False
    for name, lines in closing.streams.items():
        if name in ended_well or _has_ended(lines):
            well = True
            continue
        alive = next((at for at in reversed(range(len(lines))) if lines[at].shows_progress), -1)
        places = [sign.index for sign in explained if sign.stream == name]
        errors = [
            each
            for each in lines[alive + 1 :]
            if _is_unexplained(each, shapes) and not any(0 <= at - each.index <= _LEADS_TO for at in places)
        ]
        odd += errors
        well |= not errors and (alive >= 0 or _ends_marked(lines, shapes))
    if odd:
        return Impression(False, tuple(dict.fromkeys(each.shown_text for each in odd[-MOST_UNUSUAL:])))
    return Impression(well, () if well else rare_lines(closing))


def _has_ended(lines: Sequence[LastLine]) -> bool:
    """Whether a process says that it ended well."""
    all_of_them = "\n".join(each.text for each in lines).lower()
    if not any(word in all_of_them for word in _OF_ENDS):
        return False
    return any(_ENDED.search(each.text) for each in lines)


def describe_unknown(
    closing: Closing,
    ranks: Sequence[RankState],
    unread: Sequence[str] = (),
    still: str | None = None,
    *,
    whole: bool = True,
) -> str:
    """What is said where nothing is known: how much was read, what came last, and who fell silent first;
    `still` is what shows that the job stood still (see `describe_standstill`), `whole` as in
    `describe_first_silent`."""
    if not closing.lines:
        said = "there is not one line to read"
    else:
        many = f"{closing.lines} line{'' if closing.lines == 1 else 's'}"
        said = f"nothing known was met in {many}"
        last = _last_of_all(closing)
        if last is not None and last.time is not None and last.clock in DATED:
            said += f"; the last output came at {moment_in_words(last.time)}"
        elif last is not None:
            said += f"; the last output is {last.shown_text!r}"
    silent = still or describe_first_silent(ranks, whole=whole)
    parts = [said, *([silent] if silent else [])]
    if unread:
        count = f"{len(unread)} file" + ("" if len(unread) == 1 else "s")
        parts.append(f"{count} of evidence could not be read")
    return "; ".join(parts)


def describe_first_silent(ranks: Sequence[RankState], *, whole: bool = True) -> str | None:
    """The rank that fell silent long before all others, or stopped at an earlier step; None: no such rank.

    `whole` is whether ranks were looked for in every line. Else who is not in the last lines was silent
    before those who are.
    """
    gone = [row.rank for row in ranks if row.state == NOT_LATELY]
    if gone:
        # Where most print nothing, such as where one rank alone logs, that is no silence.
        return describe_silent(gone) if 2 * len(gone) <= len(ranks) else None
    times = sorted((row.last_output, row.rank) for row in ranks if row.last_output is not None)
    if len(times) > 1 and times[1][0] - times[0][0] >= _RANK_SILENT_FOR:
        gap = duration_in_words(times[-1][0] - times[0][0])
        who = f"{among_last_lines(whole)}rank {times[0][1]}"
        return f"{who} fell silent first, {gap} before the last output of all"
    steps = sorted((row.step, row.rank) for row in ranks if row.step is not None)
    if len(steps) > 2 and steps[0][0] < steps[1][0]:
        what = f"at step {steps[0][0]}, where others came to {steps[-1][0]}"
        return f"{among_last_lines(whole)}rank {steps[0][1]} stopped first, {what}"
    return None


def describe_silent(gone: Sequence[int]) -> str:
    """That these ranks are in none of the last lines of the streams."""
    return f"{ranks_text(gone)} printed nothing in the last {TAIL} lines, where others did"


def among_last_lines(whole: bool) -> str:
    """Of whom it is said who was first: of those in the last lines, where no others were looked at."""
    return "" if whole else f"of the ranks in the last {TAIL} lines "


def masked_numbers(text: str) -> str:
    """A line with its numbers made alike, to know it again."""
    return _DIGITS.sub("0", text.strip())


def _is_unexplained(each: LastLine, shapes: Collection[str]) -> bool:
    """Whether a line speaks of an error that no row of the signatures knows."""
    if not _SPEAKS_OF_ERROR.search(each.text) or _is_marked(each) or masked_numbers(each.text) in shapes:
        return False
    if _NO_ERROR.search(each.text) or each.text.startswith(_CONTINUED):
        return False
    return next(rows_matching(each.text), None) is None


def _is_marked(each: LastLine) -> bool:
    return (
        _MARKED.search(each.raw, 0, _BEGINNING) is not None
        or _MARKED.search(each.text[:_BEGINNING]) is not None
    )


def _ends_marked(lines: Sequence[LastLine], shapes: Collection[str]) -> bool:
    """Whether the last record of a stream is marked as information, or is told elsewhere."""
    if _WAITS.search(lines[-1].text) and not is_dealt_with(lines[-1].text):
        return False
    return any(
        _is_marked(each)
        or is_dealt_with(each.text)
        or masked_numbers(each.text) in shapes
        or next(rows_matching(each.text), None) is not None
        for each in lines[-_RECORD:]
    )


def rare_lines(closing: Closing) -> tuple[str, ...]:
    """The last lines of a kind that occurs once."""
    every = [each for lines in closing.streams.values() for each in lines]
    counts: dict[str, int] = {}
    for each in every:
        counts[masked_numbers(each.text)] = counts.get(masked_numbers(each.text), 0) + 1
    rare = [each for each in every if counts[masked_numbers(each.text)] == 1 and not _is_marked(each)]
    return tuple(dict.fromkeys(each.shown_text for each in (rare or every[-1:])[-MOST_UNUSUAL:]))


def _last_of_all(closing: Closing) -> LastLine | None:
    ends = [lines[-1] for lines in closing.streams.values() if lines]
    timed = [(each.time, each) for each in ends if each.time is not None and each.clock in DATED]
    if timed:
        return max(timed, key=lambda entry: entry[0])[1]
    # Without times nobody knows which of several streams ended last.
    return ends[0] if len(ends) == 1 else None


# What the last lines show together and none says alone: GPUs that are full, a compiler that begins again and
# again, and a NCCL that began to come up and did not.
#
# Texts: nvidia-smi's table and its CSV, gpustat, torchtitan; torch_xla's debug/metrics.py; NCCL's init.cc of
# 2.3 to 2.28.


_NEARLY_FULL = 0.98
_MOST_COMPILATIONS = 100

_OF_TOTAL = re.compile(
    r"(?<![\d.])(?P<used>\d{1,6}(?:\.\d{1,4})?) ?(?:[MG]i?B)?(?: ?/ {0,4}|, )"
    r"(?P<total>\d{1,6}(?:\.\d{1,4})?) ?[MG]i?B\b"
)
_SHARE = re.compile(
    # Of two of the words before a share the nearer one is tried alone: as linear as the text is long.
    r"\b(?:mem(?:ory)?|vram|reserved)\b(?:(?!\b(?:mem(?:ory)?|vram|reserved)\b)[^%]){0,40}?"
    r"(?<![\d.])(?P<share>\d{2,3}(?:\.\d{1,4})?) ?%",
    re.I,
)
_OF_GPU = re.compile(r"\d{2,4}W / {1,4}\d{2,4}W|\b(?:GPU|CUDA|NVIDIA|VRAM|mem(?:ory)?)\b|\d MiB, \d", re.I)
_OF_HOST = re.compile(r"\b(?:CPU|RAM|host|disk|swap|node)\b", re.I)

_COMPILATIONS = re.compile(r"\bTotalSamples: (?P<times>\d{1,10})\b")

_NCCL_STARTS = re.compile(r"\bNCCL INFO (?:(?!NCCL INFO ).){0,300}\bInit START\b")
_NCCL_CAME_UP = "Init COMPLETE"
_GIVES_UP = re.compile(
    r"\bstall|\bhang|\bhung\b|\bno (?:output|progress)\b|\bSIG(?:TERM|KILL)\b|\btimed? ?out\b|\btimeout:"
    r"|\bexit(?:ed with)? (?:code )?124\b|\bkill(?:ed|ing)\b",
    re.I,
)


@finds(Stage.LOG, hardware.CLOSE_TO_MEMORY_LIMIT, training_compiler.NO_GAIN_IN_TIME)
def signs_of_figures(closing: Closing) -> Iterator[Sighting]:
    """What figures among the last lines advise: a GPU that is nearly full, and compilations without end; of
    each stream the last."""
    for stream, lines in closing.streams.items():
        full = [each for each in lines if _share_of_gpu(each.text) >= _NEARLY_FULL]
        if full:
            what = f"the GPU's memory is close to full: {_share_of_gpu(full[-1].text):.1%} of it is in use"
            yield _sign_at(full[-1], stream, hardware.CLOSE_TO_MEMORY_LIMIT, LineRole.ADVISORY, what)
        compiled = [
            (each, int(told["times"]))
            for before, each in pairwise(lines)
            if before.text.endswith("Metric: CompileTime") and (told := _COMPILATIONS.search(each.text))
        ]
        if compiled and compiled[-1][1] >= _MOST_COMPILATIONS:
            what = f"torch_xla compiled {compiled[-1][1]} times: its shapes change all the time"
            yield _sign_at(
                compiled[-1][0], stream, training_compiler.NO_GAIN_IN_TIME, LineRole.ADVISORY, what
            )


def _share_of_gpu(text: str) -> float:
    """How much of a GPU's memory is in use by a line, 0 where it tells of none."""
    if not _OF_GPU.search(text) or _OF_HOST.search(text):
        return 0.0
    parts = [(float(told["used"]), float(told["total"])) for told in _OF_TOTAL.finditer(text)]
    shares = [used / total for used, total in parts if total]
    shares += [float(told["share"]) / 100 for told in _SHARE.finditer(text)]
    return max((share for share in shares if share <= 1), default=0.0)


@finds(Stage.LOG, nccl.INITIALISATION_STALLED)
def sign_of_stalled_start(closing: Closing) -> Sighting | None:
    """That ranks began to make a communicator and none has one until somebody gave up; None where one has, or
    nobody gave up."""
    for stream, lines in closing.streams.items():
        begun = next((at for at, each in enumerate(lines) if _NCCL_STARTS.search(each.text)), None)
        if begun is None:
            continue
        after = lines[begun + 1 :]
        if any(_NCCL_CAME_UP in each.text or each.progresses for each in after):
            continue
        if any(_GIVES_UP.search(each.text) for each in after):
            what = "NCCL began to come up (Init START), and no rank came to the end of it (Init COMPLETE)"
            sign = _sign_at(lines[begun], stream, nccl.INITIALISATION_STALLED, LineRole.SYMPTOM, what)
            return replace(sign, rank=None, about="")
    return None


def _sign_at(each: LastLine, stream: str, mode: FailureMode, role: LineRole, what: str) -> Sighting:
    return Sighting(
        mode=mode,
        role=role,
        vague=False,
        what=what,
        rank=each.line.rank,
        host=each.host or None,
        index=each.index,
        clock=each.clock,
        time=each.time,
        text=each.text,
        stream=stream,
    )


# Whether a job stood still: its output went on in a rhythm, and then nothing came for long, or no step.
#
# Only times tell it. Who prints an epoch in an hour is quiet for an hour: a silence counts that is much
# longer than those before it. A log alone cannot show that a job stood still after its last line, but what
# started the script can: the images' toolkit always says how it ended. So can the place where it still
# runs: then the time at which that was asked is when the silence ends.


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

_BY_LIMIT = {
    StopCause.MAX_RUNTIME: "limits.max_runtime",
    StopCause.MAX_USD: "limits.max_usd",
    StopCause.MAX_WAIT: "limits.max_wait",
}


@frozen
class _OutputTimes:
    """Who prints into a stream, and when: the `times` of all its last lines, and of the `steps` among them.

    `clock` is the stream's, or a host's own.
    """

    name: str
    clock: str
    times: tuple[float, ...]
    steps: tuple[float, ...]
    rank: int | None = None


def describe_silence_before_limit(
    closing: Closing, stop: Stop | None, ranks: Sequence[RankState], *, whole: bool
) -> str | None:
    """That a job had long been silent when a limit of its time ended it, in words; None where it was not."""
    if stop is None or stop.cause not in _BY_LIMIT or stop.at is None:
        return None
    of_stream = [each for each in _all_output_times(closing, ()) if each.clock == _SHARED]
    last = max((each.times[-1] for each in of_stream), default=None)
    if last is None or not any(_is_long(stop.at - each.times[-1], each.times) for each in of_stream):
        return None
    if stop.at - last < _SILENT_FOR:
        return None
    first = _first_silent(of_stream, ranks, whole)
    return (
        f"nothing failed before {_BY_LIMIT[stop.cause]} ended it, but it stood still: the last output came "
        f"at {moment_in_words(last)}, {duration_in_words(stop.at - last)} before"
    ) + (f"; {first}" if first else "")


def describe_hang(
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
    of_stream = [each for each in _all_output_times(closing, ended_well) if each.clock == _SHARED]
    if trains_at is None or not of_stream:
        return None
    last = max(each.times[-1] for each in of_stream)
    silence = trains_at - last
    if silence >= _SILENT_FOR:
        if not any(_is_long(trains_at - each.times[-1], each.times) for each in of_stream):
            return None
        first = _first_silent(of_stream, ranks, whole) or describe_first_silent(ranks, whole=whole)
        told = f"it still runs, but nothing was printed for {duration_in_words(silence)}"
        return f"{told}; {first}" if first else told
    counting = [each for each in of_stream if len(each.steps) >= _FEWEST]
    ahead = max(counting, key=lambda each: each.steps[-1], default=None)
    if ahead is None or not _is_without_step(trains_at - ahead.steps[-1], ahead.steps):
        return None
    pause = duration_in_words(trains_at - ahead.steps[-1])
    first = _first_silent(of_stream, ranks, whole) or describe_first_silent(ranks, whole=whole)
    told = f"it still runs and prints, but nobody made a step for {pause}"
    return f"{told}; {first}" if first else told


def describe_standstill(
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
    voices = _all_output_times(closing, ended_well)
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


def _first_silent(voices: Sequence[_OutputTimes], ranks: Sequence[RankState], whole: bool) -> str | None:
    """Who counted steps and fell silent long before the last output of all; ranks that are in no last line
    were silent before."""
    for clock in sorted({each.clock for each in voices}):
        alike = [each for each in voices if each.clock == clock]
        end = max(each.times[-1] for each in alike)
        for each in sorted(alike, key=lambda voice: (voice.times[-1], voice.name)):
            if len(each.steps) >= _FEWEST and _is_long(end - each.times[-1], each.times):
                if each.rank is not None and any(row.state == NOT_LATELY for row in ranks):
                    return describe_first_silent(ranks) or f"{each.name} fell silent"
                gap = duration_in_words(end - each.times[-1])
                those = among_last_lines(whole or each.rank is None)
                return f"{those}{each.name} fell silent first, {gap} before the last output of all"
    return None


def _is_long(silence: float, times: Sequence[float]) -> bool:
    return len(times) >= _FEWEST and silence >= max(_SILENT_FOR, _SILENCES * _longest(times))


def _is_without_step(pause: float, steps: Sequence[float]) -> bool:
    return pause >= max(_WITHOUT_STEP_FOR, _PAUSES * _longest(steps))


def _longest(times: Sequence[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def _all_output_times(closing: Closing, but: Collection[str]) -> list[_OutputTimes]:
    """Who prints into the streams, each with the times on the clock of its last line."""
    by_writer: dict[tuple[str, int | None], list[LastLine]] = {}
    for name, lines in closing.streams.items():
        for each in lines if name not in but else ():
            by_writer.setdefault((name, each.line.rank), []).append(each)
    return [voice for (name, rank), lines in by_writer.items() if (voice := _output_times(name, rank, lines))]


def _output_times(name: str, rank: int | None, lines: Sequence[LastLine]) -> _OutputTimes | None:
    clock = next((each.clock for each in reversed(lines) if each.clock is not None), None)
    timed = [(each.time, each) for each in lines if each.clock == clock and each.time is not None]
    if clock is None or not timed:
        return None
    host = timed[-1][1].host or name
    who = f"rank {rank}" if rank is not None else host or "the job"
    return _OutputTimes(
        who,
        clock if clock == _SHARED else f"{clock} of {host}",
        tuple(sorted(time for time, _ in timed)),
        tuple(sorted(time for time, each in timed if each.shows_progress)),
        rank,
    )
