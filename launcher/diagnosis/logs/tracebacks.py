"""Python's stacks: tracebacks, gathered from the lines of a stream, and those that py-spy and faulthandler
print of every thread."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.frozen import frozen

HEADER = "Traceback (most recent call last):"
BOX_END = "╰─"
"""How rich ends its box around a traceback; the exception follows."""

_MOST_LINES = 400
_STRAY_LINES = 3
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S{1,200}))?')
_OUTERMOST = ("<module>", "_wrap")
"""The functions in which the stack of an exception begins that nobody caught: a script's, and that of
torch.multiprocessing.spawn."""
_EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*+\.)*+"
    r"(?=[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure|Warning|Iteration|Refusal))\w++)(?::|$)"
)
_ANY_EXCEPTION = re.compile(
    r"^(?!(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|NOTE)\b|\S{1,200}\.py: )"
    r"(?P<type>(?:[A-Za-z_]\w*\.)++[A-Za-z_]\w*+|[A-Z]\w*+)(?::(?: |$)|$)"
)
"""Any name at the left margin that Python prints of a class. It names the module of all but its own, which
begin with a capital: so `wandb: `, `srun: ` and the boot's `slipway: ` end no traceback."""

_OF_ANOTHERS_STACK = re.compile(
    r"^[\w.]{1,200}: {4,40}(?:(?:from|import|return|raise|await|yield|with) |[\w.]{1,200}(?: = |\())"
)
"""The name of an exception with a line of code behind it, indented as in a stack: two processes wrote into
one another, and what this one raised for comes later."""

_MARKS = re.compile(r"^[\s~^|]+$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/(?P<package>\w+)|/(?P<torch>torch)/")
_CODE = "/ml/code/"
"""How the path of the user's code ends, below /opt and below a local run's folder alike."""

_NOT_THE_USERS = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|^<|/torch/(?:distributed|nn|utils|autograd|cuda|_)|/bin/\w+$"
)
FOLLOWS_FROM_ANOTHER = re.compile(
    r"(?:^|\.)(?:ChildFailedError|Dist\w*Error|SignalException|CalledProcessError|KeyboardInterrupt|"
    r"BrokenPipeError"
    r"|ConnectionResetError|EOFError|Process(?:Exited|Raised)Exception|Rendezvous\w+|ExecuteUserScriptError"
    r"|SystemExit)$"
)
_SPAWNED = re.compile(
    r"^(?:(?:\w+\.)*ProcessExitedException|Exception): process (?P<process>\d{1,6}) terminated with "
)
"""What torch.multiprocessing.spawn raises of a process that left no error, and whose that is; before PyTorch
1.6 as an Exception of no other name."""

_CITES_BELOW = "Exception:"
"""What it raised then of a process that left one, which it cites two lines below."""

SPAWNED_LITERAL = " terminated with the following error:"
_SPAWNED_RAISED = re.compile(rf"^-- Process (?P<process>\d{{1,6}}){SPAWNED_LITERAL}")
"""How it cites the traceback of one that raised."""


class Frame(NamedTuple):
    """One step of a traceback; `source` is the line of code, empty where it was not printed, and so is
    `function`."""

    file: str
    line: str
    source: str = ""
    function: str = ""

    @property
    def is_users(self) -> bool:
        """Whether it is in the user's own code, rather than in a library."""
        return not _NOT_THE_USERS.search(self.file)

    @property
    def place(self) -> str:
        """`file:line`, the file relative to the source folder."""
        return f"{self.file.rpartition(_CODE)[2].removeprefix('./')}:{self.line}"

    @property
    def library(self) -> str:
        """The package that it is in, or python for its own library."""
        match = _LIBRARY.search(self.file)
        return (match["package"] or match["torch"]) if match else "python"


@dataclass(slots=True)
class Traceback:
    """A traceback in the making. `add_line` takes its lines, until one completes it."""

    column: int
    """Where the header began: what stands before it in the lines comes again in each."""
    prefix_shape: str
    box: bool = False
    ignored: bool = False
    """Whether Python says of it that it is ignored, as of one in a destructor."""
    in_thread: bool = False
    """Whether Python says that it ended a thread, other than the main one."""
    cited_from: int | None = None
    """Of which process of its host torch.multiprocessing.spawn cites it, counted from 0."""
    lines: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    exception: str = ""
    line_count: int = 0
    alone: bool = True
    """Whether nothing stands before the header in its line."""
    is_in_stack: bool = True
    """Whether the last line is of the stack: the header, a place or what stands there. It says nothing of
    what failed."""
    _strays: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the exception was read, or is not going to be."""
        return bool(self.exception) or self.line_count > _MOST_LINES or self._strays > _STRAY_LINES

    @property
    def kind(self) -> str:
        """The exception's type as printed, such as `torch.OutOfMemoryError`; empty where none was read."""
        match = _ANY_EXCEPTION.match(self.exception)
        return match["type"] if match else ""

    @property
    def is_fatal(self) -> bool:
        """Whether nobody caught it, as far as the frames tell: the stack of what a program catches begins
        where it was caught."""
        return bool(self.frames) and not self.ignored and self.frames[0].function in _OUTERMOST

    @property
    def follows_from_another(self) -> bool:
        """Whether such an exception only reports that something else failed."""
        by_spawn = self.exception == _CITES_BELOW or _SPAWNED.match(self.exception)
        return bool(by_spawn or FOLLOWS_FROM_ANOTHER.search(self.kind))

    @property
    def local_process(self) -> int | None:
        """The process of its host that torch.multiprocessing.spawn says it is of, counted from 0."""
        ended = _SPAWNED.match(self.exception)
        return self.cited_from if ended is None else int(ended["process"])

    @property
    def place(self) -> str | None:
        """`file:line` of the innermost frame in the user's own code, else of the innermost of all."""
        if not self.frames:
            return None
        own = self._own()
        return self.frames[-1 if own is None else own].place

    @property
    def where_in_words(self) -> tuple[str, ...]:
        """Where it happened: the user's innermost line first, the library's frames below it folded.

        Without a frame of the user's, the last lines as they were printed.
        """
        own = self._own()
        if own is None:
            return tuple(self.lines)
        frame, below = self.frames[own], self.frames[own + 1 :]
        line = f"{frame.place}: {frame.source}" if frame.source else frame.place
        return (line, fold_frames(below)) if below else (line,)

    def _own(self) -> int | None:
        """The number of the innermost frame in the user's own code."""
        return next((n for n in reversed(range(len(self.frames))) if self.frames[n].is_users), None)

    def add_line(self, text: str) -> None:
        """Take the stream's next line, without its prefixes."""
        self.line_count += 1
        text = self.strip_prefix(text)
        self.is_in_stack = self.alone and not self._strays and _is_of_stack(text)
        if match := _FRAME.match(text):
            self.frames.append(Frame(match["file"], match["line"], function=match["function"] or ""))
            self._strays = 0
        elif self.frames and not self.frames[-1].source and text[:1] in (" ", "\t") and _is_source(text):
            self.frames[-1] = self.frames[-1]._replace(source=text.strip())
        if text[:1] in (" ", "\t", "") or text.startswith(("│", "╭")):
            if text.strip():
                self.lines = [*self.lines, text][-4:]
            return
        raised = _EXCEPTION.match(text) or (self.frames and not self.box and _ANY_EXCEPTION.match(text))
        if raised and not _OF_ANOTHERS_STACK.match(text):
            self.exception = text.strip()
        else:
            self._strays += 1 + (_STRAY_LINES if self.box else 0)

    def strip_prefix(self, text: str) -> str:
        """A line without what stands before the header as well, if it stands before this one."""
        covered = self.column and prefix_shape(text[: self.column]) == self.prefix_shape
        return text[self.column :] if covered else text


def open_traceback(text: str) -> Traceback | None:
    """The traceback that this line begins, to which the following lines are added; None for other lines."""
    column = text.find(HEADER)
    if column >= 0:
        if text[:column].rstrip().endswith("^C"):
            # A terminal shows so that somebody pressed Ctrl-C; the lines below do not begin with it.
            return Traceback(0, "", alone=True, is_in_stack=True)
        alone = not text[:column].strip()
        return Traceback(column, prefix_shape(text[:column]), alone=alone, is_in_stack=alone)
    if text.lstrip().startswith(BOX_END):
        return Traceback(0, "", box=True, alone=False, is_in_stack=False)
    return None


def cited_process(text: str) -> int | None:
    """The process of its host of which torch.multiprocessing.spawn cites the traceback next."""
    cited = _SPAWNED_RAISED.match(text)
    return None if cited is None else int(cited["process"])


def names_exception(text: str) -> bool:
    """Whether a line says at its left margin what was raised."""
    return _EXCEPTION.match(text) is not None


def says_what_was_raised(text: str) -> bool:
    """Whether a line below a stack names an exception, or any class with a message behind it."""
    if names_exception(text):
        return True
    return ":" in text and bool(_ANY_EXCEPTION.match(text)) and not _OF_ANOTHERS_STACK.match(text)


def fold_frames(frames: Sequence[Frame]) -> str:
    """So many frames in these libraries, such as `... 7 frames in torch`."""
    libraries = ", ".join(dict.fromkeys(frame.library for frame in frames))
    return f"... {len(frames)} frame{'' if len(frames) == 1 else 's'} in {libraries}"


def _is_of_stack(text: str) -> bool:
    """Whether a line tells a place; in what is pasted exceptions are indented as well."""
    return text[:1] in (" ", "\t", "") and not _EXCEPTION.match(text.lstrip())


def _is_source(text: str) -> bool:
    return bool(text.strip()) and not _MARKS.match(text)


def prefix_shape(prefix: str) -> str:
    """A prefix with its digits made alike, to know it again in the next line."""
    return re.sub(r"\d", "0", prefix)


# Stacks of ranks as py-spy and faulthandler write them, and which ranks stand elsewhere than the others.
#
# `py-spy dump` (0.3 and 0.4) prints a process' id, command and threads, frames from the innermost on: `
# step (train.py:8)`. CPython's faulthandler (3.8 to 3.14) prints `Thread 0x... (most recent call first):`
# and ` File "train.py", line 8 in step`, the thread that dumps as `Current thread`.


class CodeFrame(NamedTuple):
    """A line of a stack: its file as written, the number from 1, and the function."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """Such as `train.py:88 in step`."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line} in {self.function}"


_OF_LIBRARIES = (
    "site-packages/",
    "dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "<frozen ",
    "<__array_function__",
    "slipway.pyz/",
    "/slipway/ranks/",
    "torch/",
)


def users_frame(frames: Sequence[CodeFrame]) -> CodeFrame | None:
    """The innermost frame that is of no library; `frames` begin with the innermost."""
    return next((frame for frame in frames if is_users(frame)), None)


def is_users(frame: CodeFrame) -> bool:
    """Whether a frame is of the user's code: its file lies in no place of Python's or of packages."""
    file = frame.file.replace("\\", "/")
    if not file.endswith((".py", ".ipynb")) and not file.startswith("/"):
        return False
    return not any(part in file if part != "torch/" else file.startswith(part) for part in _OF_LIBRARIES)


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


@frozen
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
        main = _main_frames(threads)
        if owner is not None and main:
            found.setdefault(owner, main)
    return tuple(RankStack(owner, host, frames) for owner, frames in sorted(found.items()))


_FAILED_COLLECTIVE = "Stack trace of the failed collective:"
_FRAME_OF_COLLECTIVE = re.compile(
    r"^#\d{1,3} (?P<function>\S{1,300}) from (?P<file>\S{1,500}):(?P<line>\d{1,9})\s*$"
)


def read_failed_collective(
    heading: str, below: Sequence[str], rank: int, host: str | None = None
) -> RankStack | None:
    """Where a rank called the collective that timed out, as torch's watchdog tells it since 2.4: `#0 barrier
    from /torch/distributed/distributed_c10d.py:4635`; None where the heading begins no such stack."""
    if _FAILED_COLLECTIVE not in heading:
        return None
    frames = []
    for text in below:
        if (frame := _FRAME_OF_COLLECTIVE.match(text)) is None:
            break
        frames.append(CodeFrame(frame["file"], int(frame["line"]), frame["function"]))
    return RankStack(rank, host, tuple(frames)) if frames else None


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


def _main_frames(threads: Sequence[_Thread]) -> tuple[CodeFrame, ...]:
    """The main thread's frames: the one that py-spy calls so, else the last with code of the user's, for
    faulthandler writes the main thread last."""
    for thread in threads:
        if thread.is_main:
            return tuple(thread.frames)
    of_user = [thread for thread in threads if users_frame(thread.frames) is not None]
    chosen = of_user or list(threads)
    return tuple(chosen[-1].frames) if chosen else ()
