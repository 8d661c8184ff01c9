"""The thread beside a script: it counts the script's steps, and answers what the boot asks."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from slipway.ranks.answers import answer, question_file, stacks_file
from slipway.ranks.heartbeat import LOADED, STATE_VARIABLE, Heartbeat, heartbeat_file
from slipway.ranks.steps import counted

_LOOK_SECONDS = 0.05
"""Between two looks whether torch is loaded; afterwards the thread sleeps until it is asked."""

_SIGNAL_ABOVE_FIRST = 11
"""Which real-time signal makes faulthandler write the stacks: scripts use the two of users, libraries the
first and the last of these."""

_LAST_ANSWER_SECONDS = 5.0
"""So long the end of the interpreter waits for an answer under way: a full recorder takes PyTorch three."""

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
    except (OSError, KeyError, ValueError) as error:
        print(f"slipway: this rank is not watched: {error}", file=sys.stderr, flush=True)
        return None
    _current = heartbeat
    # Data loaders are forks that may hold an optimizer: they are not the rank.
    os.register_at_fork(after_in_child=_forget)
    # The first to be registered is the last to be called: until then questions are answered.
    atexit.register(_answer_no_more)
    threading.Thread(
        target=_serve, args=(heartbeat, file, questions), name="slipway-attendant", daemon=True
    ).start()
    return heartbeat


def rank_of(environment: Mapping[str, str]) -> int:
    """The rank by torchrun, else the place of the host.

    Raises KeyError or ValueError where the environment does not say.
    """
    return int(environment["RANK"] if "RANK" in environment else environment["SM_CURRENT_HOST_RANK"])


def current() -> Heartbeat | None:
    """The heartbeat of this process; None where it has none, as in a data loader."""
    return _current


def _forget() -> None:
    global _current
    if _current is not None:
        _current.silence()
    _current = None


def _answer_no_more() -> None:
    """Let an answer under way come to its end, and no other begin.

    A thread that comes back from PyTorch's code after the interpreter has ended is ended by Python in the
    midst of C++, which aborts the process: "terminate called without an active exception", SIGABRT
    (Python/pylifecycle.c, before 3.14).
    """
    if _current is not None:
        _answering.acquire(timeout=_LAST_ANSWER_SECONDS)


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
                answer(file, int(number), stacks == b"1")


def _is_still_to_come(heartbeat: Heartbeat) -> bool:
    """Whether torch is not loaded yet; once it is, its steps are counted."""
    with contextlib.suppress(Exception):
        if not counted(heartbeat.beat):
            return True
        heartbeat.enter(LOADED)
    return False
