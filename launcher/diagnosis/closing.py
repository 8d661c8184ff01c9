"""How the streams of a log end: whether that shows a job that is well, and what in it nobody has explained.

Nothing is called healthy because nothing known was met in it. Something has to show it: the word that
training came to its end, a counter or a bar that went on to the last lines, or last lines that their writer
marks as information. What follows that and speaks of an error is not explained by it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from launcher.diagnosis.last_lines import DATED, Closing, LastLine
from launcher.diagnosis.matching import rows_matching
from launcher.diagnosis.ranks import NOT_LATELY, RankState
from launcher.diagnosis.sighting import Sighting, is_dealt_with
from launcher.diagnosis.windows import TAIL
from launcher.text.durations import duration_in_words
from launcher.text.moments import moment_in_words
from launcher.text.rank_ranges import ranks_text

MOST_UNUSUAL = 5
"""Lines that are shown of what nobody has explained."""

_SILENT_FOR = 30.0
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
    r"error\b|exception\b|\b(?:fatal|panic|failed|failure|abort(?:ed|ing)?|killed|segfault|core dumped"
    r"|cannot|could(?: not|n't)|unable to|denied|corrupt(?:ed)?|invalid|refused|unreachable|timed out"
    r"|timing out|time-?out:|mismatched|sig(?:kill|segv|abrt|bus|hup)|segmentation fault|cancelled)\b"
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


@dataclass(frozen=True, slots=True)
class Impression:
    """Whether the ends of all streams show that all is well, and what speaks against it."""

    healthy: bool
    unusual: tuple[str, ...]
    """The last lines that nobody has explained, with who printed them."""


def impression(closing: Closing, explained: Sequence[Sighting], ended_well: Collection[str]) -> Impression:
    """What the ends of the streams show.

    `explained` are the signs that are told elsewhere, with the lines that lead to them; `ended_well` the
    streams that say that training came to its end: what such a process prints coming down says nothing.
    """
    shapes = {shape_of(sign.text) for sign in explained}
    odd: list[LastLine] = []
    well = False
    for name, lines in closing.streams.items():
        if name in ended_well or _has_ended(lines):
            well = True
            continue
        alive = next((at for at in reversed(range(len(lines))) if lines[at].goes_on), -1)
        places = [sign.index for sign in explained if sign.stream == name]
        errors = [
            each
            for each in lines[alive + 1 :]
            if _is_unexplained(each, shapes) and not any(0 <= at - each.index <= _LEADS_TO for at in places)
        ]
        odd += errors
        well |= not errors and (alive >= 0 or _ends_marked(lines, shapes))
    if odd:
        return Impression(False, tuple(dict.fromkeys(each.told for each in odd[-MOST_UNUSUAL:])))
    return Impression(well, () if well else rare(closing))


def _has_ended(lines: Sequence[LastLine]) -> bool:
    """Whether a process says that it ended well."""
    all_of_them = "\n".join(each.text for each in lines).lower()
    if not any(word in all_of_them for word in _OF_ENDS):
        return False
    return any(_ENDED.search(each.text) for each in lines)


def unknown_in_words(
    closing: Closing,
    ranks: Sequence[RankState],
    unread: Sequence[str] = (),
    still: str | None = None,
    *,
    whole: bool = True,
) -> str:
    """What is said where nothing is known: how much was read, what came last, and who fell silent first;
    `still` is what shows that the job stood still (see `standstill`), `whole` as in `silent_first`."""
    if not closing.lines:
        said = "there is not one line to read"
    else:
        many = f"{closing.lines} line{'' if closing.lines == 1 else 's'}"
        said = f"nothing known was met in {many}"
        last = _last(closing)
        if last is not None and last.time is not None and last.clock in DATED:
            said += f"; the last output came at {moment_in_words(last.time)}"
        elif last is not None:
            said += f"; the last output is {last.told!r}"
    silent = still or silent_first(ranks, whole=whole)
    parts = [said, *([silent] if silent else [])]
    if unread:
        count = f"{len(unread)} file" + ("" if len(unread) == 1 else "s")
        parts.append(f"{count} of evidence could not be read")
    return "; ".join(parts)


def silent_first(ranks: Sequence[RankState], *, whole: bool = True) -> str | None:
    """The rank that fell silent long before all others, or stopped at an earlier step; None: no such rank.

    `whole` is whether ranks were looked for in every line. Else who is not in the last lines was silent
    before those who are.
    """
    gone = [row.rank for row in ranks if row.state == NOT_LATELY]
    if gone:
        # Where most print nothing, such as where one rank alone logs, that is no silence.
        return silent_ranks(gone) if 2 * len(gone) <= len(ranks) else None
    times = sorted((row.last_output, row.rank) for row in ranks if row.last_output is not None)
    if len(times) > 1 and times[1][0] - times[0][0] >= _SILENT_FOR:
        gap = duration_in_words(times[-1][0] - times[0][0])
        return f"{of_those(whole)}rank {times[0][1]} fell silent first, {gap} before the last output of all"
    steps = sorted((row.step, row.rank) for row in ranks if row.step is not None)
    if len(steps) > 2 and steps[0][0] < steps[1][0]:
        what = f"at step {steps[0][0]}, where others came to {steps[-1][0]}"
        return f"{of_those(whole)}rank {steps[0][1]} stopped first, {what}"
    return None


def silent_ranks(gone: Sequence[int]) -> str:
    """That these ranks are in none of the last lines of the streams."""
    return f"{ranks_text(gone)} printed nothing in the last {TAIL} lines, where others did"


def of_those(whole: bool) -> str:
    """Of whom it is said who was first: of those in the last lines, where no others were looked at."""
    return "" if whole else f"of the ranks in the last {TAIL} lines "


def shape_of(text: str) -> str:
    """A line with its numbers made alike, to know it again."""
    return _DIGITS.sub("0", text.strip())


def _is_unexplained(each: LastLine, shapes: Collection[str]) -> bool:
    """Whether a line speaks of an error that no row of the signatures knows."""
    if not _SPEAKS_OF_ERROR.search(each.text) or _is_marked(each) or shape_of(each.text) in shapes:
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
        or shape_of(each.text) in shapes
        or next(rows_matching(each.text), None) is not None
        for each in lines[-_RECORD:]
    )


def rare(closing: Closing) -> tuple[str, ...]:
    """The last lines of a kind that occurs once."""
    every = [each for lines in closing.streams.values() for each in lines]
    counts: dict[str, int] = {}
    for each in every:
        counts[shape_of(each.text)] = counts.get(shape_of(each.text), 0) + 1
    rare = [each for each in every if counts[shape_of(each.text)] == 1 and not _is_marked(each)]
    return tuple(dict.fromkeys(each.told for each in (rare or every[-1:])[-MOST_UNUSUAL:]))


def _last(closing: Closing) -> LastLine | None:
    ends = [lines[-1] for lines in closing.streams.values() if lines]
    timed = [(each.time, each) for each in ends if each.time is not None and each.clock in DATED]
    if timed:
        return max(timed, key=lambda entry: entry[0])[1]
    # Without times nobody knows which of several streams ended last.
    return ends[0] if len(ends) == 1 else None
