"""A rank's heartbeat, and the thread beside its script that counts steps and answers what the boot asks.

Steps are told by PyTorch's optimizers or by `slipway.progress()`, without torch being imported here: the
script may never do it, and what it sets in `os.environ` for the loading of torch must come first.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

from slipway.errors import say

_LOOK_SECONDS = 0.05
"""Between two looks whether torch is loaded; afterwards the thread sleeps until it is asked."""

_SIGNAL_ABOVE_FIRST = 11
"""Which real-time signal makes faulthandler write the stacks: scripts use the two of users, libraries the
first and the last of these."""

_LAST_ANSWER_SECONDS = 5.0
"""So long the end of the interpreter waits for an answer under way: a full recorder takes PyTorch three."""

_LAST_THREADS_SECONDS = 0.2
"""So long the end of the interpreter is put off for the threads of process groups that the script leaves."""

_current: Heartbeat | None = None
_answering = threading.Lock()


def attend(environment: Mapping[str, str]) -> Heartbeat | None:
    """Begin the heartbeat of this process, which is a rank; None where that is not possible.

    That is said, and changes nothing for the script.
    """
    global _current
    try:
        file = heartbeat_file(Path(environment[STATE_VARIABLE]), rank_of(environment))
        file.parent.mkdir(parents=True, exist_ok=True)
        questions = _open_questions(question_file(file))
        heartbeat = Heartbeat(file, _stacks_by_signal(stacks_file(file)))
        _write_last_stacks(last_stacks_file(file))
    except (OSError, KeyError, ValueError) as error:
        say(f"this rank is not watched: {error}")
        return None
    _current = heartbeat
    # Where native code ends this rank its stderr says in which line of the script.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        faulthandler.enable()
    # Data loaders are forks that may hold an optimizer: they are not the rank.
    os.register_at_fork(after_in_child=_forget_heartbeat)
    # The first to be registered is the last to be called: until then questions are answered.
    atexit.register(_answer_no_more)
    atexit.register(_let_collectives_end)
    threading.Thread(
        target=_serve, args=(heartbeat, file, questions), name="slipway-attendant", daemon=True
    ).start()
    return heartbeat


def rank_of(environment: Mapping[str, str]) -> int:
    """The rank by torchrun, else the place of the host.

    Raises KeyError or ValueError where the environment does not say.
    """
    return int(environment["RANK"] if "RANK" in environment else environment["SM_CURRENT_HOST_RANK"])


def current_heartbeat() -> Heartbeat | None:
    """The heartbeat of this process; None where it has none, as in a data loader."""
    return _current


_HELD_SECONDS, _OTHERS_SECONDS = 6.0, 0.3
_failed_in: TracebackType | None = None


def note_failure(traceback: TracebackType | None) -> None:
    """Answer from now on that this rank is where its script failed, and keep that for who asks too late."""
    global _failed_in
    _failed_in = traceback
    lines = [
        f'  File "{file}", line {line} in {name}\n'
        for file, line, name, _ in reversed(_stack_of_failure(traceback))
    ]
    for descriptor in _last_stacks:
        # In faulthandler's words, which may follow.
        with contextlib.suppress(OSError):
            os.write(descriptor, f"Thread (most recent call first):\n{''.join(lines)}\n".encode())


def hold_failed_rank() -> None:
    """Stay, where the script failed as it waited for other ranks, until the boot has asked all of them: with
    the first rank that goes torchrun ends the rest."""
    from slipway.watchdog.rank_views import StackFrame, waits_inside

    frames = _stack_of_failure(_failed_in)
    if _current is None or not waits_inside([StackFrame(*frame) for frame in frames]):
        return
    until = time.monotonic() + _HELD_SECONDS
    while time.monotonic() < until and not _current.answered_since_failure:
        time.sleep(_LOOK_SECONDS)
    time.sleep(_OTHERS_SECONDS)


def _forget_heartbeat() -> None:
    global _current
    if _current is not None:
        _current.silence()
        for descriptor in _last_stacks:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, descriptor)
            os.close(nothing)
    _current = None


def _answer_no_more() -> None:
    """Let an answer under way come to its end, and no other begin.

    A thread that comes back from PyTorch's code after the interpreter has ended is ended by Python in the
    midst of C++, which aborts the process: "terminate called without an active exception", SIGABRT
    (Python/pylifecycle.c, before 3.14).
    """
    if _current is not None:
        _answering.acquire(timeout=_LAST_ANSWER_SECONDS)


def _let_collectives_end() -> None:
    """Leave the interpreter, for a moment, to the threads of process groups that the script leaves.

    Such a thread drops the tensors of its last collective when it comes to it. Those that the script has
    dropped before need the interpreter for that (torch/csrc/PyInterpreter.cpp, decref), and who comes back to
    one that has ended aborts the process, as above. destroy_process_group waits for these threads.
    """
    with contextlib.suppress(Exception):
        if _groups():
            time.sleep(_LAST_THREADS_SECONDS)


def _open_questions(file: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    os.mkfifo(str(file), 0o600)
    # Open for writing too: otherwise it would be at its end whenever nobody asks.
    return os.open(str(file), os.O_RDWR)


def _stacks_by_signal(file: Path) -> int:
    """The signal by which faulthandler writes all stacks into the file; 0 where there is none.

    It works without the interpreter's lock, so also where C code keeps that.
    """
    first = getattr(signal, "SIGRTMIN", None)
    if first is None:
        return 0
    number = int(first) + _SIGNAL_ABOVE_FIRST
    # Never closed: faulthandler keeps its descriptor.
    descriptor = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    faulthandler.register(number, file=descriptor, all_threads=True, chain=False)
    return number


_last_stacks: list[int] = []
"""The descriptor of the file for the stacks at SIGTERM, of a process that has one."""


def _write_last_stacks(file: Path) -> None:
    """Have faulthandler write all stacks into the file where SIGTERM ends this process, as torchrun ends the
    peers of one that failed. A script's own handler for the signal takes its place."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    descriptor = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    faulthandler.register(signal.SIGTERM, file=descriptor, all_threads=True, chain=True)
    _last_stacks.append(descriptor)


def _serve(heartbeat: Heartbeat, file: Path, questions: int) -> None:
    """Never raises into the script, and takes no signal from its main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    looking = True
    while True:
        if looking:
            looking = _is_still_to_come(heartbeat)
        ready, _, _ = select.select([questions], [], [], _LOOK_SECONDS if looking else None)
        if ready:
            # A rank that cannot answer gives none, and the boot says so.
            with contextlib.suppress(Exception), _answering:
                number, stacks = os.read(questions, 4096).split()[-2:]
                heartbeat.answers(int(number))
                answer_question(file, int(number), stacks == b"1")


def _is_still_to_come(heartbeat: Heartbeat) -> bool:
    """Whether torch is not loaded yet; once it is, its steps are counted."""
    with contextlib.suppress(Exception):
        if not count_steps(heartbeat.beat):
            return True
        heartbeat.enter(LOADED)
    return False


def progress() -> None:
    """Tell the watchdog that this rank gets on: call it in long evaluations, or in loops without optimizer.

    It counts as a step. Costs about a microsecond, and does nothing where nobody watches, as outside of a
    job or in a data loader's process.
    """
    heartbeat = current_heartbeat()
    if heartbeat is not None:
        heartbeat.beat()


# Which steps a script makes: told by PyTorch's optimizers, without a change to the script.


_WRAPPED = "_slipway_counts"


def count_steps(beat: Callable[..., None]) -> bool:
    """Call `beat` after every step of every optimizer from now on; False where torch is not loaded yet.

    Since torch 2.0 by its own hook (register_optimizer_step_post_hook of torch/optim/optimizer.py), which
    optimizers that were made before call as well; before by wrapping `step` of each class, as
    Optimizer.__init__ does there (_hook_for_profile).
    """
    optimizers = _optimizers(sys.modules)
    if optimizers is None:
        return False
    register = getattr(optimizers, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(beat)
    else:
        _wrap_classes(optimizers.Optimizer, beat)
    return True


def _optimizers(modules: dict[str, ModuleType]) -> Any:
    """The module of optimizers, once torch is loaded to its end."""
    torch, optimizers = modules.get("torch"), modules.get("torch.optim.optimizer")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return None
    return optimizers if hasattr(optimizers, "Optimizer") else None


def _wrap_classes(base: Any, beat: Callable[..., None]) -> None:
    """Wrap the classes that are there, and those that are still to come when one is made of them."""
    for each in _with_subclasses(base):
        _wrap(each, beat)
    made = base.__init__

    @functools.wraps(made)
    def make(self: Any, *arguments: Any, **named: Any) -> None:
        for each in type(self).__mro__:
            if issubclass(each, base):
                _wrap(each, beat)
        made(self, *arguments, **named)

    base.__init__ = make


def _wrap(optimizer: Any, beat: Callable[..., None]) -> None:
    step = optimizer.__dict__.get("step")
    if not callable(step) or getattr(step, _WRAPPED, False):
        return

    @functools.wraps(step)
    def stepped(*arguments: Any, **named: Any) -> Any:
        result = step(*arguments, **named)
        beat()
        return result

    setattr(stepped, _WRAPPED, True)
    optimizer.step = stepped


def _with_subclasses(base: Any) -> Iterator[Any]:
    yield base
    for each in base.__subclasses__():
        yield from _with_subclasses(each)


# What a rank answers when the boot asks where it is: its stacks, its collectives, its groups.
#
# One answer is two files beside the heartbeat: `RANK.answer` (JSON), and `RANK.recorder` with what
# PyTorch's flight recorder knows, as PyTorch writes it. Answered by a thread of the rank, so that nothing
# is interrupted. The rank reads its own recorder, and tells the newest of it: a full one is megabytes of
# 20,000 collectives, which take a host of eight ranks many seconds.


_DEEPEST = 100
"""Frames of a thread, the innermost: what lies further out says little of where it is."""

_RECORDERS = ("_dump_fr_trace", "_dump_nccl_trace")
"""Of any device since torch 2.9 or so, and of NCCL since 2.2 (torch/csrc/distributed/c10d/init.cpp)."""


def question_file(heartbeat: Path) -> Path:
    """The pipe into which the boot writes the number of a question."""
    return heartbeat.with_name(heartbeat.name + ".question")


def answer_file(heartbeat: Path) -> Path:
    """What the rank answers, with the number of the question in it."""
    return heartbeat.with_name(heartbeat.name + ".answer")


def recorder_file(heartbeat: Path) -> Path:
    """What the flight recorder knew at that answer; missing where there is none."""
    return heartbeat.with_name(heartbeat.name + ".recorder")


def stacks_file(heartbeat: Path) -> Path:
    """Where faulthandler writes the stacks of a rank that does not answer."""
    return heartbeat.with_name(heartbeat.name + ".stacks")


def last_stacks_file(heartbeat: Path) -> Path:
    """Where the stacks of a rank are that an exception or SIGTERM ends, in faulthandler's words."""
    return heartbeat.with_name(heartbeat.name + ".last")


def answer_question(heartbeat: Path, number: int, stacks: bool) -> None:
    """Answer a question: the recorder first, the answer's own file last.

    With `stacks` the recorder tells the lines that led to each collective, which takes PyTorch seconds where
    it is full.

    Raises OSError where the files cannot be written, ValueError where the recorder cannot be read.
    """
    # Here, not at the top: a rank that is never asked need not load it.
    import json

    from slipway.watchdog.rank_views import newest_of, read_dump

    recorded = _recorder_dump(stacks)
    newest = None
    if recorded is None:
        with contextlib.suppress(FileNotFoundError):
            recorder_file(heartbeat).unlink()
    else:
        _put(recorder_file(heartbeat), recorded)
        newest = newest_of(read_dump(recorded))
    told = {"number": number, "recorder": newest, "groups": _groups(), "threads": _threads()}
    _put(answer_file(heartbeat), json.dumps(told).encode())


def _put(file: Path, content: bytes) -> None:
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    part.replace(file)


def _recorder_dump(stacks: bool) -> bytes | None:
    """The dump of the first recorder that holds something, else of any that is there."""
    library: Any = sys.modules.get("torch._C._distributed_c10d")
    dumps = []
    for name in _RECORDERS:
        dump = getattr(library, name, None)
        if dump is None:
            continue
        try:
            # Collectives, their stacks, and not only what is in flight; older versions take fewer arguments.
            dumps.append(dump(True, stacks, False))
        except TypeError:
            dumps.append(dump())
        except RuntimeError:
            continue
    return max(dumps, key=len, default=None)


def _groups() -> dict[str, list[int]]:
    """The global ranks of each process group that this rank belongs to, by the group's name."""
    library: Any = sys.modules.get("torch.distributed.distributed_c10d")
    # `_world` since torch 2.0, before that names of the module (torch/distributed/distributed_c10d.py).
    world = getattr(library, "_world", None)
    names = getattr(world, "pg_names", None) or getattr(library, "_pg_names", None) or {}
    members = getattr(world, "pg_group_ranks", None) or getattr(library, "_pg_group_ranks", None) or {}
    return {str(name): sorted(members[group]) for group, name in list(names.items()) if group in members}


def _ranks_of_default_group() -> int:
    library: Any = sys.modules.get("torch.distributed.distributed_c10d")
    with contextlib.suppress(Exception):
        return int(library.get_world_size()) if library.is_initialized() else 0
    return 0


def _threads() -> list[dict[str, Any]]:
    """The stacks of all threads, the main thread's first; frames from the outermost to the innermost."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sys._current_frames()
    ordered = sorted(frames, key=lambda identity: identity != main)
    own = threading.get_ident()
    failed = _stack_of_failure(_failed_in)
    return [
        {
            "name": names.get(each, ""),
            "main": each == main,
            "frames": (each == main and failed) or _stack(frames[each]),
        }
        for each in ordered
        if each != own
    ]


def _stack(frame: FrameType | None) -> list[list[Any]]:
    found: list[list[Any]] = []
    while frame is not None and len(found) < _DEEPEST:
        found.append(_frame(frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def _stack_of_failure(traceback: TracebackType | None) -> list[list[Any]]:
    found: list[list[Any]] = []
    while traceback is not None:
        found.append(_frame(traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found[-_DEEPEST:]


def _frame(frame: FrameType, line: int) -> list[Any]:
    file = frame.f_code.co_filename
    return [file, line, frame.f_code.co_name, _whole_numbers(file, frame)]


_MOST_NUMBERS = 100


def _whole_numbers(file: str, frame: FrameType) -> dict[str, int]:
    """What a function of the script counts in its variables, and `self` in its own: epochs, steps."""
    if "-packages/" in file:
        return {}
    held: dict[str, Any] = dict(frame.f_locals)
    with contextlib.suppress(AttributeError):
        own = dict(object.__getattribute__(held["self"], "__dict__")) if "self" in held else {}
        held.update({f"self.{name}": value for name, value in own.items()})
    whole = [(name, value) for name, value in held.items() if type(value) is int and abs(value) < 2**63]
    return dict(whole[:_MOST_NUMBERS])


# A rank's heartbeat: a small file that both the rank and the boot see at once.
#
# The rank maps it into its memory, so that a beat is one copy of a few bytes, without a call to the system;
# the boot reads it as a file. Times are those of the monotonic clock, which all processes of a host share.


STATE_VARIABLE = "SLIPWAY_STATE"
"""Names the folder of what a running host knows of itself; the ranks' part of it is below `ranks`."""

STARTED, LOADED, ENDED, FAILED = 0, 1, 2, 3
"""The phases of a rank: its script has begun, PyTorch is loaded and its steps are counted, the script has
ended well, or by an exception."""

_SIZE = 4096
_MAGIC = b"slipway1"
_WHOLE = struct.Struct("<8sqqqqqdqdd")
_BEAT = struct.Struct("<qdd")
_BEAT_AT = _WHOLE.size - _BEAT.size
_PHASE = struct.Struct("<q")
_PHASE_AT = 24
_ASKED_AT = 32
_GROUP_AT = 40


class Beat(NamedTuple):
    """What a rank says of itself.

    `signal` makes it write its stacks, 0 where none does. `asked` is the number of the question that it last
    began to answer. `group` is how many ranks the default process group had at the first step, 0 where there
    was none. `started`, `last` and `longest` are in seconds:
    when it began, when it beat last (0 for never), and the longest time between two beats so far.
    """

    pid: int
    signal: int
    phase: int
    asked: int
    group: int
    started: float
    steps: int
    last: float
    longest: float


class Heartbeat:
    """The heartbeat as the rank writes it: a beat for each step."""

    def __init__(self, file: Path, signal: int = 0) -> None:
        """Raises OSError where the file cannot be written, as on a full disk."""
        self._map = _mapped(file)
        self._steps, self._last, self._longest = 0, 0.0, 0.0
        self.answered_since_failure = False
        started = time.monotonic()
        _WHOLE.pack_into(self._map, 0, _MAGIC, os.getpid(), signal, STARTED, 0, 0, started, 0, 0.0, 0.0)

    def beat(self, *_: object) -> None:
        """A step was made. Takes and ignores what PyTorch gives a hook."""
        now = time.monotonic()
        if not self._steps:
            _PHASE.pack_into(self._map, _GROUP_AT, _ranks_of_default_group())
        elif now - self._last > self._longest:
            self._longest = now - self._last
        self._steps += 1
        self._last = now
        _BEAT.pack_into(self._map, _BEAT_AT, self._steps, now, self._longest)

    def silence(self) -> None:
        """Beat no more in this process: it is a fork, and the file belongs to its parent."""
        self._map = mmap.mmap(-1, _SIZE)

    def answers(self, number: int) -> None:
        """Note that the rank begins to answer a question."""
        _PHASE.pack_into(self._map, _ASKED_AT, number)
        self.answered_since_failure = _failed_in is not None

    def enter(self, phase: int) -> None:
        """Note that the rank is in another phase."""
        _PHASE.pack_into(self._map, _PHASE_AT, phase)


def heartbeat_file(state: Path, rank: int) -> Path:
    """Where the rank's heartbeat is, below the host's state."""
    return state / "ranks" / str(rank)


def read_beat(file: Path) -> Beat | None:
    """What the rank said last; None where there is nothing yet, or something else."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_WHOLE.size)
    except OSError:
        return None
    if len(content) < _WHOLE.size or not content.startswith(_MAGIC):
        return None
    return Beat(*_WHOLE.unpack(content)[1:])


def _mapped(file: Path) -> mmap.mmap:
    """A new file that takes up its room on the disk: a page without one would end the process (SIGBUS)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(str(file), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if os.write(descriptor, bytes(_SIZE)) != _SIZE:
            raise OSError(f"{file} has no room for {_SIZE} bytes")
        os.fsync(descriptor)
        return mmap.mmap(descriptor, _SIZE)
    finally:
        os.close(descriptor)
