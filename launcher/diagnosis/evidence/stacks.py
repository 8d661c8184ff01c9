"""Stacks of ranks as py-spy and faulthandler write them, and which ranks stand elsewhere than the others.

`py-spy dump` (0.3 and 0.4) prints a process' id, command and threads, frames from the innermost on:
`    step (train.py:8)`. CPython's faulthandler (3.8 to 3.14) prints `Thread 0x... (most recent call first):`
and `  File "train.py", line 8 in step`, the thread that dumps as `Current thread`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from launcher.diagnosis.evidence.frames import CodeFrame, users_frame

_LONGEST_LINE = 2000
_DEEPEST = 200
_MOST_THREADS = 4000

_PYSPY_PROCESS = re.compile(r"^Process (?P<pid>\d{1,10}): (?P<command>.*)$")
_PYSPY_THREAD = re.compile(r"^Thread (?P<id>\S{1,20}) \((?P<state>active|idle)[^)]{0,20}\)(?P<name>.*)$")
_PYSPY_FRAME = re.compile(
    r"^ {4,8}(?P<function>[^\s(][^(]{0,300}) \((?P<file>[^)]{1,500}):(?P<line>\d{1,9})\)$"
)
_FAULT_THREAD = re.compile(
    r"^(?:Current t|T)hread 0x[0-9a-fA-F]{1,16}(?: \[[^\]]{0,100}\])? \(most recent call first\):"
)
_FAULT_FRAME = re.compile(
    r'^ {2}File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,9}|\?\?\?) in (?P<function>\S{1,300})'
)
_PREFIX = re.compile(r"^\[(?:rank|default)?(?P<rank>\d{1,7})\]:? ?")
_RANK_OPTION = re.compile(r"(?:^|\s)(?:RANK=|--rank[= ]|rank )(?P<rank>\d{1,7})\b")
_HEADING = re.compile(r"^(?:[=#*-]{1,20} ?)?[Rr]ank:? ?(?P<rank>\d{1,7})\b")

_WAITING = (
    ("torch/distributed/distributed_c10d.py", None),
    ("torch/distributed/_functional_collectives.py", None),
    ("torch/autograd/graph.py", "_engine_run_backward"),
    ("torch/autograd/__init__.py", "backward"),
    ("torch/cuda/__init__.py", "synchronize"),
    ("torch/cuda/streams.py", "synchronize"),
)
"""Where a rank stands while it waits for others: the file's end, and the function where it matters."""


@dataclass(frozen=True, slots=True)
class RankStack:
    """Where the main thread of a rank is: its frames, the innermost first."""

    rank: int
    host: str | None
    frames: tuple[CodeFrame, ...]

    @property
    def users(self) -> CodeFrame | None:
        """The innermost frame of the user's code."""
        return users_frame(self.frames)

    @property
    def waits(self) -> bool:
        """Whether it stands inside of PyTorch where one waits for other ranks."""
        return any(
            frame.file.replace("\\", "/").endswith(end) and name in (None, frame.function)
            for frame in self.frames[:3]
            for end, name in _WAITING
        )


def is_stack_dump(head: bytes) -> bool:
    """Whether a file that begins with these bytes holds stacks of py-spy or faulthandler."""
    if b"(most recent call first):" not in head and b"Process " not in head:
        return False
    lines = head.decode("utf-8", "replace").splitlines()
    for line in lines:
        text = _PREFIX.sub("", line)
        if _FAULT_THREAD.match(text):
            return True
        if _PYSPY_PROCESS.match(text) and any(each.startswith(("Python v", "Thread ")) for each in lines):
            return True
    return False


def read_stacks(text: str, rank: int | None, host: str | None = None) -> tuple[RankStack, ...]:
    """The stacks of the main threads of the ranks in a file.

    `rank` is whose file it is, by its name; where it holds several ranks, their lines, a heading or py-spy's
    command tell them apart. What nobody is named for is left out.
    """
    found: dict[int, tuple[CodeFrame, ...]] = {}
    for owner, threads in _processes(text, rank):
        main = _main(threads)
        if owner is not None and main:
            found.setdefault(owner, main)
    return tuple(RankStack(owner, host, frames) for owner, frames in sorted(found.items()))


@dataclass(slots=True)
class _Thread:
    is_main: bool
    frames: list[CodeFrame]


def _processes(text: str, rank: int | None) -> Iterator[tuple[int | None, list[_Thread]]]:
    """The threads of each process in their order, with the rank that is named for it."""
    named = rank
    by_owner: dict[int | None, list[_Thread]] = {}
    for raw in text.splitlines():
        line = raw[:_LONGEST_LINE].rstrip()
        prefix = _PREFIX.match(line)
        owner = named
        if prefix is not None:
            owner, line = int(prefix["rank"]), line[prefix.end() :]
        elif (heading := _HEADING.match(line)) is not None:
            named = int(heading["rank"])
            continue
        elif (process := _PYSPY_PROCESS.match(line)) is not None:
            told = _RANK_OPTION.search(process["command"])
            named = int(told["rank"]) if told else named
            continue
        threads = by_owner.setdefault(owner, [])
        if (thread := _PYSPY_THREAD.match(line)) is not None:
            threads.append(_Thread("MainThread" in thread["name"], []))
        elif _FAULT_THREAD.match(line) is not None:
            threads.append(_Thread(False, []))
        elif threads and len(threads) < _MOST_THREADS and len(threads[-1].frames) < _DEEPEST:
            frame = _PYSPY_FRAME.match(line) or _FAULT_FRAME.match(line)
            if frame is not None:
                number = int(frame["line"]) if frame["line"].isdigit() else 0
                threads[-1].frames.append(CodeFrame(frame["file"], number, frame["function"]))
    yield from by_owner.items()


def _main(threads: Sequence[_Thread]) -> tuple[CodeFrame, ...]:
    """The main thread's frames: the one that py-spy calls so, else the last with code of the user's, for
    faulthandler writes the main thread last."""
    for thread in threads:
        if thread.is_main:
            return tuple(thread.frames)
    of_user = [thread for thread in threads if users_frame(thread.frames) is not None]
    chosen = of_user or list(threads)
    return tuple(chosen[-1].frames) if chosen else ()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The ranks that stand elsewhere than most, which are `usual`; each with where."""

    odd: tuple[RankStack, ...]
    usual: tuple[RankStack, ...]


def elsewhere(stacks: Iterable[RankStack]) -> Elsewhere | None:
    """Who stands elsewhere than the ranks that wait for others; None where that tells nothing.

    Only where more ranks wait than do not: who does not is awaited. Where all wait, the few that wait at
    another line than most.
    """
    every = sorted({each.rank: each for each in stacks}.values(), key=lambda each: each.rank)
    inside = [each for each in every if each.waits]
    outside = [each for each in every if not each.waits]
    if inside and outside:
        return Elsewhere(tuple(outside), tuple(inside)) if len(inside) > len(outside) else None
    if outside:
        return None
    places: dict[CodeFrame | None, list[RankStack]] = {}
    for each in inside:
        places.setdefault(each.users, []).append(each)
    usual = max(places.values(), key=len, default=[])
    odd = [each for each in inside if each not in usual]
    if not odd or len(odd) >= len(usual):
        return None
    return Elsewhere(tuple(odd), tuple(usual))
