"""Which format a log is in, by its beginning, and how to take off what copying put around its lines.

`format_of` knows the documents and tables that `events` reads, margins of quotations, labels of srun,
descriptions of pods, and lines that a terminal broke.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, TypeAlias

from launcher.diagnosis.logs import events
from launcher.diagnosis.logs.decode import bound_lines
from launcher.diagnosis.logs.events import LARGEST_EVENT, Event, event_within, in_order_of_time, object_in
from launcher.diagnosis.logs.lines import LONGEST_RAW_LINE, lines_of
from launcher.diagnosis.logs.tracebacks import prefix_shape
from launcher.frozen import frozen

_DOCUMENT = re.compile(r'\s*\{\s*"')
_LISTED = re.compile(r'"(?:events|results)"\s*:\s*\[')
_ARRAY = re.compile(r"\s*\[\s*(?:\{|\[\s*\{)")
_MOST_BEFORE = 4096
"""Characters of a document before its list of events."""
_SAMPLED_LINES = 2000
"""Lines by which text is judged."""
_SHARE_OF_OBJECTS = 0.5

AsEvents: TypeAlias = Callable[[Iterable[bytes]], Iterator[Event]]
AsText: TypeAlias = Callable[[Iterable[bytes]], Iterator[bytes]]


@frozen
class Format:
    """How a stream is read: as events, or as text where that is None.

    `name` is what it is called to a person.
    """

    name: str
    as_events: AsEvents | None = None
    as_text: AsText = bound_lines


PLAIN = Format("text")


def format_of(head: bytes) -> Format:
    """The format of clean text (see `decode.as_text`) by its first bytes (HEAD)."""
    text = head.decode("utf-8", errors="replace")
    lines = text.splitlines()
    whole = lines[:-1] if len(lines) > 1 and not text.endswith("\n") else lines
    margin = margin_of(whole[:_SAMPLED_LINES])
    if margin is not None:
        return _behind(margin, head)
    first = next((line for line in whole if line.strip()), "")
    for found in (_json(text, first), _table(first)):
        if found is not None:
            return found
    sample = whole[:_SAMPLED_LINES]
    if _holds_objects(sample):
        return Format("JSON lines", _events(events.read_json_lines))
    if have_task_labels(sample):
        return Format("text with tasks of srun", as_text=lambda blocks: relabel(bound_lines(blocks), sample))
    if are_pod_descriptions(sample):
        return Format("a description of pods", as_text=lambda blocks: prefix_pods(bound_lines(blocks)))
    width = wrapping_width(sample)
    if width is not None:
        return Format(
            f"text wrapped at {width} columns",
            as_text=lambda blocks: join_lines(bound_lines(blocks), width),
        )
    return PLAIN


def _behind(margin: re.Pattern[str], head: bytes) -> Format:
    """The format of what stands behind a margin, and how to read it from there."""

    def uncovered(blocks: Iterable[bytes]) -> Iterator[bytes]:
        return remove_margin(bound_lines(blocks, LARGEST_EVENT), margin)

    found = format_of(b"".join(uncovered([head])))
    as_events = found.as_events
    return Format(
        f"{found.name} behind a margin",
        None if as_events is None else lambda blocks: as_events(uncovered(blocks)),
        lambda blocks: found.as_text(uncovered(blocks)),
    )


def _json(text: str, first: str) -> Format | None:
    if object_in(first) is not None:
        if _LISTED.search(first, 0, _MOST_BEFORE):
            return Format("JSON of CloudWatch Logs", _in_order(bare=False))
        return None
    if _ARRAY.match(text) and not text.lstrip().startswith("[["):
        return Format("an array of JSON", _in_order(bare=True))
    if _DOCUMENT.match(text) and _LISTED.search(text, 0, _MOST_BEFORE):
        return Format("JSON of CloudWatch Logs", _in_order(bare=False))
    return None


def _table(first: str) -> Format | None:
    if first.startswith(events.EVENTS_MARK):
        return Format("text of the AWS CLI", _events(events.read_cli_text))
    if events.columns_of(first) is not None:
        return Format("CSV", lambda blocks: in_order_of_time(_events(events.read_csv)(blocks)))
    return None


def _in_order(*, bare: bool) -> AsEvents:
    return lambda blocks: in_order_of_time(events.read_document(blocks, bare=bare))


def _events(decoder: AsEvents) -> AsEvents:
    """The decoder for a text of which each line is an event: no line is longer than one may be."""
    return lambda blocks: decoder(bound_lines(blocks, LARGEST_EVENT))


def _holds_objects(lines: list[str]) -> bool:
    """Whether many of the lines are what a log driver or a structured logger writes."""
    closed = [line for line in lines if line.rstrip().endswith("}")]
    objects = sum(event_within(line) is not None for line in closed)
    return objects > 0 and objects >= _SHARE_OF_OBJECTS * sum(bool(line.strip()) for line in lines)


# What whoever copied a log put before each of its lines: indentation, marks of a quotation, numbers, a
# file.
#
# Issues, mails and chats quote by `> `, Markdown shows as code what is indented; `cat -n`, `nl` and editors
# number lines, `grep -H` names the file, `gh run view --log` job and step, and services that start programs
# write `stderr: `. Behind it all is as it was printed, so the margin is taken off first.


_SHARE_WITH_MARGIN: Final = 0.95
"""The share of lines with a margin, as somebody may have written a sentence beside."""

_FIRST: Final = 20
"""Lines that are asked before all others, as most logs have no margin."""

_FEWEST_WITH_MARGIN: Final = 3
"""Lines that show that numbers count them."""

_FILE = r"^[\w./@-]{1,200}\.(?:log|txt|out|err)(?::\d{1,9})?:"
_STREAM = r"^(?:stdout|stderr)(?: ?\||:)"
_NUMBER = r"^ {0,8}(?P<number>\d{1,9})"
_MARKS: Final = tuple(
    re.compile(mark)
    for mark in (
        r"^(?:> ?)+",
        r"^[^\t]{1,100}\t[^\t]{1,100}\t(?=\d{4}-\d\d-\d\dT)",
        rf"{_STREAM}(?: |$)",
        _STREAM,
        rf"{_FILE}(?: |$)",
        _FILE,
        rf"{_NUMBER}\t",
        rf"{_NUMBER}(?::| {{1,4}}\|)(?: |$)",
        rf"{_NUMBER}:",
    )
)
"""Of those that may have a space behind them first the one with it."""


def margin_of(lines: Sequence[str]) -> re.Pattern[str] | None:
    """What stands before nearly all of these lines and is no part of them; None where nothing does."""
    first = _filled(lines[:_FIRST])
    marks = [mark for mark in _MARKS if _stands_before(mark, first)]
    if not marks and not _indentation(first):
        return None
    filled = _filled(lines)
    indentation = _indentation(filled)
    if indentation:
        return re.compile(re.escape(indentation))
    return next((mark for mark in marks if _stands_before(mark, filled)), None)


def _filled(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def _stands_before(mark: re.Pattern[str], lines: Sequence[str]) -> bool:
    found = [match for line in lines if (match := mark.match(line))]
    enough = len(found) >= max(1, _SHARE_WITH_MARGIN * len(lines))
    return enough and ("number" not in mark.groupindex or _count_up(found))


def remove_margin(blocks: Iterable[bytes], margin: re.Pattern[str]) -> Iterator[bytes]:
    """Clean text without its margin; what has none stays as it is."""
    for line in lines_of(blocks):
        match = margin.match(line)
        yield f"{line[match.end() :] if match else line}\n".encode("utf-8", errors="replace")


def _indentation(lines: Sequence[str]) -> str:
    """The spaces and tabs with which all lines begin; not the tab before each item of a list of which the
    heading is missing, as of what torch's load_state_dict could not load."""
    if not lines or not _depth(lines[0]):
        return ""
    common = min(lines, key=_depth)
    common = common[: _depth(common)]
    if common == "\t" and len({tuple(line.split(None, 2)[:2]) for line in lines}) == 1:
        return ""
    return common if all(line.startswith(common) for line in lines) else ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _count_up(found: Sequence[re.Match[str]]) -> bool:
    """Whether these are the numbers of lines, rather than of tasks or of steps that each print more."""
    numbers = [int(match["number"]) for match in found]
    return len(found) >= _FEWEST_WITH_MARGIN and all(
        later == earlier + 1 for earlier, later in pairwise(numbers)
    )


# Lines that `srun --label` numbers by their task: `3: text`, the number as wide as the largest one.
#
# The number is the global rank only where srun starts the ranks itself. Where it starts torchrun, once on
# each node, it is the node's: what is printed then says so (torchrun's own lines, the ranks' own prefixes),
# and the number becomes a host's name, so that no rank is blamed for its neighbour's lines.


_LABEL = re.compile(r" {0,6}(\d{1,6}): ?")
_FEWEST_LABELLED = 4
_SHARE_LABELLED = 0.9
_LAUNCHED = re.compile(
    r"torchrun|torch[./]distributed[./](?:run|launch|elastic)|OMP_NUM_THREADS|\[(?:rank|default|trainer)\d|accelerate",
)


def have_task_labels(lines: Sequence[str]) -> bool:
    """Whether these lines have tasks before them: nearly all of them, and their numbers come again."""
    filled = [line for line in lines if line.strip()]
    numbers = [match[1] for line in filled if (match := _LABEL.match(line))]
    return (
        len(numbers) >= max(_FEWEST_LABELLED, _SHARE_LABELLED * len(filled))
        and len(set(numbers)) <= len(numbers) / 2
        and "0" in numbers
    )


def _is_launched(line: str) -> bool:
    """Whether another launcher than srun started who printed this; a rank that is its label is srun's."""
    shown = _LAUNCHED.search(line)
    label = _LABEL.match(line)
    return shown is not None and not (label and line.startswith(f"[rank{label[1]}]:", shown.start()))


def relabel(blocks: Iterable[bytes], lines: Sequence[str]) -> Iterator[bytes]:
    """The text with the labels as torch writes ranks, or as hosts where `lines` show another launcher."""
    mark = "task-{}: " if any(map(_is_launched, lines)) else "[rank{}]: "
    for line in lines_of(blocks):
        if mark.startswith("[") and _is_launched(line):
            mark = "task-{}: "
        label = _LABEL.match(line)
        text = mark.format(int(label[1])) + line[label.end() :] if label else line
        yield f"{text}\n".encode("utf-8", errors="replace")


# What `kubectl describe pod` prints: how the containers of a pod ended, below the pod's name.
#
# Text: kubectl's pkg/describe/describe.go, describePod and describeContainerState. Each line gets the pod
# before it, as `kubectl logs --prefix` writes it, so that the end of a container is told of its pod.


_NAME = re.compile(r"Name: {2,40}(?P<name>[a-z0-9][a-z0-9.-]{0,252})$")
_CONTAINERS = "Containers:"


def are_pod_descriptions(lines: Sequence[str]) -> bool:
    """Whether these lines begin with a pod's name and go on with its containers."""
    first = next((line for line in lines if line.strip()), "")
    return _NAME.match(first.rstrip()) is not None and any(line.rstrip() == _CONTAINERS for line in lines)


def prefix_pods(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The text with the name of the pod before each line."""
    mark = ""
    for line in lines_of(blocks):
        if found := _NAME.match(line.rstrip()):
            mark = f"[pod/{found['name']}] "
        yield f"{mark}{line}\n".encode("utf-8", errors="replace")


# Lines that a terminal broke at its width, put together again.
#
# Who copies a log out of a terminal, or out of a page that shows it like one, gets a break wherever a line
# reached the edge. Such a text shows it: no line is longer than the width, very many are exactly as long,
# and what follows those does not begin as the lines of that log do. All of this is asked for, since joining
# lines that belong apart does more harm than leaving them broken.


_NARROWEST: Final = 60
_WIDEST: Final = 320
_FEWEST_BROKEN = 4
"""Full lines without which nothing is called wrapped."""
_MOST_LONGER = 0.05
"""The share of lines beyond the width, of all that reach it: what was pasted beside."""
_LEAST_BROKEN = 0.75
"""The share of full lines behind which the text goes on."""
_NEARLY = 10
"""Characters that a line may lack to be a little shorter than another."""
_MARK = 5
"""Characters by whose shape the beginnings of two lines are called alike."""
_DRAWN = "+-=*#_| "
"""Characters that lines are drawn with."""
_BEGINS = re.compile(
    r"\s*(?:\[|\(\w+ pid=|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[EWIF]\d{4} |Traceback \(|File \"|"
    r"[\w.]*(?:Error|Exception|Warning)\b|(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b|"
    r"[\w.-]+:\d+:\d+ \[)|\s{2}"
)
"""How lines of logs begin, whatever printed them; indentation is a beginning too."""


def wrapping_width(lines: Sequence[str]) -> int | None:
    """The width, in characters, at which a terminal broke these lines; None where none did."""
    by_length = sorted(lines, key=len, reverse=True)
    longer = 0
    for width, alike in groupby(by_length, len):
        if width < _NARROWEST:
            break
        full = sum(not _is_rule(line) for line in alike)
        if width <= _WIDEST and full:
            if longer > _MOST_LONGER * (full + longer):
                break  # and narrower ones have more lines beyond them
            if full >= _FEWEST_BROKEN and _goes_on(lines, width) and _is_edge(by_length, full, width):
                return width
        longer += full
    return None


def join_lines(blocks: Iterable[bytes], width: int) -> Iterator[bytes]:
    """The text with the lines of exactly that width put together with what follows them."""
    under_way: list[str] = []
    length = 0
    for line in lines_of(blocks):
        under_way.append(line)
        length += len(line)
        if len(line) == width and not _is_rule(line) and length < LONGEST_RAW_LINE:
            continue
        yield "".join([*under_way, "\n"]).encode("utf-8", errors="replace")
        under_way, length = [], 0
    if under_way:
        yield "".join([*under_way, "\n"]).encode("utf-8", errors="replace")


def _goes_on(lines: Sequence[str], width: int) -> bool:
    """Whether most of the full lines do not end where they end."""
    pairs = [(line, after) for line, after in pairwise(lines) if len(line) == width and not _is_rule(line)]
    if not pairs:
        return False
    broken = sum(not _begins(after, line) for line, after in pairs)
    return broken >= _LEAST_BROKEN * len(pairs) and broken >= _FEWEST_BROKEN - 1


def _is_edge(lines: Sequence[str], full: int, width: int) -> bool:
    """Whether far more lines are as long than a little shorter: lengths by chance have no edge."""
    below = sum(width - _NEARLY <= len(line) < width and not _is_rule(line) for line in lines)
    return full * 2 >= below


def _begins(line: str, before: str) -> bool:
    """Whether a line begins as lines do, rather than in the middle of one."""
    return (
        not line.strip()
        or bool(_BEGINS.match(line))
        or prefix_shape(line[:_MARK]) == prefix_shape(before[:_MARK])
    )


def _is_rule(line: str) -> bool:
    """Whether it is a line drawn with characters."""
    if not line.strip(_DRAWN):
        return True
    behind_first = line.lstrip(line[0])
    return not behind_first.strip(line[0] + behind_first[:1])  # two characters and no more
