"""How log lines are read: how much of a line is looked at, who printed it and when, and the numbers of a
training.

Prefixes of a line stack, in any order: `[1,23]<stdout>:` (mpirun), `[23]<stdout>:` (horovodrun) and others,
each with its source beside its pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

LONGEST_LINE: Final = 4096
"""Characters of a line that patterns see. What a line says it says at its beginning; what goes on for longer
is data that was printed: a mask, a tensor, an archive in base64."""


class Origin(NamedTuple):
    """Where a line comes from; None is what it does not tell.

    `rank` is global and `local_rank` counts on its host; `host` is as printed, `algo-2` where it can be;
    `device` is NCCL's local device. The message begins at `start`. `mark` is where in the text the rank
    stands, from and to. `writer` tells apart the processes whose lines are mixed in one stream.
    """

    rank: int | None
    local_rank: int | None
    host: str | None
    device: int | None
    start: int
    mark: tuple[int, int] | None
    writer: int | str | None


_NO_HOST = r"(?<!\.py)(?<!Error)(?<!Exception)(?<!Warning)(?<!Failure)"
"""What ends a script's name, or an exception's with its module, and not the name of a host."""

_NO_ROLE = r"(?:step|epoch|iter|batch|round|phase|stage|gpu|cuda|device|node|line|level|rank)"
"""How other numbers in brackets are called, which are no local ranks."""

PREFIX = re.compile(
    r"\s*+(?:"
    r"(?P<mark>"
    r"\[(?:\d+,(?:mpirank:)?)?(?P<mpi>\d{1,6})(?:,(?P<mpihost>[\w.-]+))?\]<std(?:out|err|diag)>:?"
    r"|(?:\[rank[ =]?|rank=)(?P<rank>\d{1,6})(?:(?<=\d)\]:?|:| \||(?= (?![\w-]+=)))"
    r"|\[(?:default|(?!" + _NO_ROLE + r")[A-Za-z][A-Za-z_-]{0,30})(?P<local>\d{1,6})\]:"
    r") ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]"
    r"|\[ *\d+\.\d+\] |\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\] "
    r"|\[?(?:[A-Z][a-z]{2} [ \d]\d |\d{1,2}/\d{1,2}/\d{4},? )?"
    r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M)?\]?[ \t]"
    r"|(?<=\d\d:\d\d:\d\d )(?P<unit>[A-Za-z][\w.-]{0,100}) [\w.@/-]{1,60}\[\d{1,8}\]: "
    r"|\d{10}\.\d{3,9}[ \t]"
    r"|(?<=[\dZ] )std(?:out|err) [FP] "
    r"|(?:\w+-)?(?P<algo>algo-\d+)-\w+(?:_\d+)? *\| ?"
    r"|(?P<compose>[A-Za-z][\w.-]{0,80}[-_]\d{1,4}) +\| "
    r"|\[pod/(?P<pod>[\w.-]+)(?:/[\w.-]+)?\] "
    r"|(?:[\w.-]+/)(?P<tail>algo-\d+)-\d{6,} "
    r"|\([\w.:<>]+ pid=(?P<pid>\d{1,9})(?:, ip=(?P<ip>[\da-fA-F.:]+))?\) ?"
    r"|(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[(?P<device>\d+)\] "
    r"|(?P<pdsh>(?:(?:\d{1,3}\.){3}\d{1,3}|algo-\d+|(?=[^\s:]*\d)(?!mount\.)[A-Za-z]\w*[-.][\w.-]+"
    + _NO_HOST
    + ")(?=: )"
    r"|(?=\S*\d)[A-Za-z][\w.-]{0,100}(?=:? \[rank ?\d)):? "
    r")"
)
_MOST_PREFIXES = 8
_WITHIN = ("mpi", "mpihost", "rank", "local", "device")
"""Groups that tell no more of who printed a line than the one around them, or nothing."""

_PROCESS_GROUP = re.compile(
    r"\s*(?:\[[EWIF][^\]]*\] ?)?(\[(?:PG (?:ID )?(?:0|default_pg) [^\]\[]*)?Rank (\d{1,6})\])"
)
"""How PyTorch's process groups begin a line of theirs, after glog's header: the rank in the group. In the
group of all ranks it is the global one, in others it tells nobody. It belongs to the message and counts where
no prefix has a rank."""


def origin_of(text: str) -> Origin:
    """The origin of a line without control characters (see `without_controls`).

    Spaces before a prefix go with it, the indentation after the last one belongs to the message.
    """
    rank = local_rank = host = device = mark = sender = process = None
    start = 0
    for _ in range(_MOST_PREFIXES):
        match = PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
        if match.lastindex is None:
            continue  # a time
        marked, mpi, mpi_host, torch, local, *senders, pid, ip, nccl, number, pdsh = match.groups()
        sent_by = next(filter(None, senders), None)
        if marked is not None:
            if local is None:
                rank, mark = int(mpi or torch), match.span("mark")
            else:
                local_rank, mark = int(local), mark or match.span("mark")
        sender = sent_by or ip or pdsh or sender
        process = pid or process
        host = mpi_host or nccl or sent_by or ip or pdsh or host
        if number is not None:
            device = int(number)
    writer = rank if rank is not None else _writer(sender, process, local_rank)
    if writer is None and (group := _PROCESS_GROUP.match(text, start)):
        rank, mark = int(group[2]), group.span(1)
    return Origin(rank, local_rank, host, device, start, mark, writer)


def spans_of_origin(text: str) -> tuple[tuple[int, int], ...]:
    """Where in a line's prefixes it stands who printed it: from and to, of the rank, host or process."""
    spans: list[tuple[int, int]] = []
    start = 0
    for _ in range(_MOST_PREFIXES):
        match = PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
        spans += [
            match.span(name) for name, value in match.groupdict().items() if value and name not in _WITHIN
        ]
    if group := _PROCESS_GROUP.match(text, start):
        spans.append(group.span(1))
    return tuple(spans)


def _writer(sender: str | None, process: str | None, local_rank: int | None) -> int | str | None:
    """Who wrote a line without a rank: the local rank, among those of the host that another program names."""
    if sender is None and process is None:
        return local_rank
    return "/".join(str(each) for each in (sender, process, local_rank) if each is not None)


_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d{0,3})?(Z|[+-]\d\d:?\d\d(?=[\s\],]))?"
)
_GLOG = re.compile(r"(?:^|\[)[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")


def printed_time(text: str) -> tuple[str, float] | None:
    """The kind of clock and the seconds on it that a line prints, or None: only like clocks compare.

    glog's lines have no year; PyTorch writes the month without a leading zero. A time without its distance
    from UTC is taken for UTC, as SageMaker's hosts have it.
    """
    if match := _GLOG.search(text):
        return _seconds("glog", f"2000-{int(match[1]):02}-{match[2]}", match[3], match[4])
    if match := _ISO.search(text):
        return _seconds("iso", match[1], match[2], match[3], match[4])
    return None


def _seconds(
    clock: str, day: str, time: str, fraction: str | None, zone: str | None = None
) -> tuple[str, float] | None:
    whole = _whole_seconds(f"{day}T{time}{'+00:00' if zone in (None, 'Z') else zone}")
    return None if whole is None else (clock, whole + float(f"0.{fraction or 0}"))


@lru_cache(maxsize=256)
def _whole_seconds(moment: str) -> float | None:
    """Seconds since the epoch; a log has many lines of one second."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return None


_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_EQUALS = r"['\"]?\s*+(?:[:=]\s*+)?[\[(]?\s*+['\"]?"
_NOT_HELD_OUT = r"(?<![\w.])(?<!\bval )(?<!\beval )(?<!\btest )(?<!\bvalidation )"

BUILT_IN: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"(?i){words}{_EQUALS}({value})")
    for name, words, value in (
        ("step", r"(?<![\w/])(?:global[_ ])?(?:step|iteration|iter)", r"\d+"),
        ("epoch", r"(?<![\w/])epoch", _NUMBER),
        (
            "loss",
            rf"{_NOT_HELD_OUT}(?:(?:reduced_)?train(?:ing)?[_ /]|(?:[a-z]{{1,20}}_)?step_|lm )?loss",
            rf"{_NUMBER}|nan|inf",
        ),
        (
            "samples/s",
            r"(?<!\w)(?:samples|images|examples)(?:/s(?:ec(?:ond)?)?|[_ ]per[_ ]second)",
            _NUMBER,
        ),
    )
}
"""What training scripts print mostly: this project's example, PyTorch's, Hugging Face's Trainer, Megatron,
and diffusers' `step_loss`."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "iter"),
    "epoch": ("epoch",),
    "loss": ("loss",),
    "samples/s": ("samples", "images", "examples"),
}
"""One of these is in every line that the built-in pattern finds, in small letters: to look for a word takes
a fraction of the time of a pattern that begins with a number."""

_STEP_OF_STEPS = re.compile(r"(?:\||\] {0,4}\[)\s*+(\d{1,12})/(\d{1,12})(?=\]| \[)")
"""The step and the number of steps in a bar of tqdm's, ` 31%|### | 31/100 [00:02<`, in `Epoch: [1][31/100]`
and in torchvision's `Epoch: [1]  [  31/5004]  eta: 1:21:33`. They count where the line holds a loss: other
bars are about files and samples."""

_COUNTED = ("step", "epoch")
_OF_ALL = re.compile(r" ?(?:/|of) ?(\d{1,12})(?![\d.])")
"""How many there are, behind a step or an epoch: `Epoch 3/10`, `step 20 of 100`."""

_VALIDATION = re.compile(r"(?i)(?<![a-z])(?:val|eval|valid|validation|test)(?![a-z])")

_SPEED_AFTER_NUMBER = re.compile(
    rf"(?i)(?<!\d)(?<!\d\.)({_NUMBER})\s*+(?:samples|images|examples)/s(?:ec(?:ond)?)?\b"
)


class PrintedMetrics:
    """Finds metrics in lines.

    `definitions` are the job's own, name to regular expression as the service takes them, whose first group
    is the value; step, epoch, loss and speed are found by built-in ones where the job has none for them.
    `loss` is the name of the training's loss; of a validation's only where there is no other. `goals` are how
    many steps and epochs there are, by the newest line that says so.
    """

    def __init__(self, definitions: Mapping[str, str] | None = None) -> None:
        self.goals: dict[str, float] = {}
        self._patterns = {name: re.compile(text) for name, text in _usable(definitions or {}).items()}
        own = {plain_name(name) for name in self._patterns}
        self._words: dict[str, tuple[str, ...]] = {}
        for name, pattern in BUILT_IN.items():
            if name not in own:
                self._patterns[name] = pattern
                self._words[name] = _WORDS[name]
        losses = [name for name in self._patterns if "loss" in name.lower()]
        self.loss = next((name for name in losses if not _VALIDATION.search(name)), losses[0])

    def values_in(self, text: str) -> dict[str, float]:
        """The metrics in a line, by their names; the first of each."""
        values = {}
        text = text[:LONGEST_LINE]
        small = text.lower()
        for name, pattern in self._patterns.items():
            words = self._words.get(name)
            if words is not None:
                for word in words:
                    if word in small:
                        break
                else:
                    continue
            match = pattern.search(text)
            if match is None and name == "samples/s":
                match = _SPEED_AFTER_NUMBER.search(text)
            if match is not None and match.groups() and match[1] is not None:
                try:
                    values[name] = float(match[1])
                except ValueError:
                    continue
                if name in _COUNTED and (goal := _OF_ALL.match(text, match.end())):
                    self.goals[name] = float(goal[1])
        if self.loss in values and "step" in self._words and "step" not in values:
            match = _STEP_OF_STEPS.search(text)
            if match is not None:
                values["step"], self.goals["step"] = float(match[1]), float(match[2])
        return values


def _usable(definitions: Mapping[str, str]) -> dict[str, str]:
    """Those that Python can read: the service's regular expressions may differ in details."""
    usable = {}
    for name, text in definitions.items():
        try:
            re.compile(text)
        except re.error:
            continue
        usable[name] = text
    return usable


def plain_name(name: str) -> str:
    """A metric's name without what it is of: `train:loss`, `train_loss` and `Loss` are the loss."""
    last = re.split(r"[:/](?!s\b)", name.lower())[-1]
    return last.removeprefix("train_").removeprefix("training_").removeprefix("global_")


Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Places in a text, each from and to."""

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_POINTER = re.compile(rb"(0x)(?<![0-9A-Za-z]0x)([0-9A-Fa-f]+)")
"""With its literal first, ahead of what may not stand before it, it is sought twelve times as fast."""
_FACTOR = re.compile(rb"(?<![0-9A-Za-z])0(?=x)")
_RUN = re.compile(rb"0+")

WIDEST = (4, 6, 7, 9, 10, 18)
"""Numbers with as many digits as one of these, and no more than it, have one kind: patterns take numbers up
to such a width."""

_WIDTHS = tuple(sum(width > widest for widest in WIDEST) + 1 for width in range(WIDEST[-1] + 1))


def digit_shape(text: bytes) -> bytes:
    """The text with each digit made a zero, those of addresses too, so that everything stands where it
    stood."""
    shape = text.translate(_ZEROS)
    if b"0x" in shape:
        if shape.count(b"0x") != text.count(b"0x"):
            # What stands before an x makes it an address, so it is told from other digits.
            shape = _FACTOR.sub(lambda found: text[found.start() : found.end()], shape)
        # Lines of communicators have one each, so no call of ours is made for it.
        parts = _POINTER.split(shape)
        parts[2::3] = map(b"0".__mul__, map(len, parts[2::3]))
        shape = b"".join(parts)
    return shape


@lru_cache(maxsize=1024)
def digit_kind(shape: bytes) -> bytes:
    """The shape with its numbers as wide as the kind has them; lines of one shape come again and again."""
    return _RUN.sub(lambda found: b"0" * _width(len(found[0])), shape)


def _width(digits: int) -> int:
    return _WIDTHS[digits] if digits < len(_WIDTHS) else digits


class Layout:
    """Where the places of a kind are in the lines of a shape."""

    __slots__ = ("_runs",)

    def __init__(self, shape: bytes) -> None:
        runs = [found.span() for found in _RUN.finditer(shape)]
        self._runs = [(start, end, _width(end - start)) for start, end in runs]

    def of_kind(self, spans: Spans) -> Spans | None:
        """Places of the shape as those of its kind, from and to; None where one cuts a number."""
        places = [(self._of_kind(start), self._of_kind(end)) for start, end in spans]
        told = tuple((start, end) for start, end in places if start is not None and end is not None)
        return told if len(told) == len(spans) else None

    def of_shape(self, spans: Spans) -> Spans:
        """Places of the kind as those of the shape."""
        return tuple((self._of_shape(start), self._of_shape(end)) for start, end in spans)

    def _of_kind(self, place: int) -> int | None:
        longer = 0
        for start, end, width in self._runs:
            if place <= start:
                break
            if place < end:
                return None
            longer += end - start - width
        return place - longer

    def _of_shape(self, place: int) -> int:
        longer = 0
        for start, end, width in self._runs:
            if place <= start - longer:
                break
            longer += end - start - width
        return place + longer


def places_getter(spans: Spans) -> Callable[[bytes], object]:
    """What stands in a line at these places."""
    if not spans:
        return itemgetter(slice(0, 0))
    return itemgetter(*(slice(start, end) for start, end in spans))
