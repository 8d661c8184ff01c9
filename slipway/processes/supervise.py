"""Processes: start one, hand signals on to those that must checkpoint, leave none behind.

torchrun starts each worker in a session of its own (torch 2.1 and later), so a process group does not reach
them: descendants are found by their parents instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import say
from slipway.failure import BootError
from slipway.job_secrets import NOTHING_MASKED, Masking
from slipway.processes.process_output import KeptLog, Relay

POLL_SECONDS = 0.1
SWEEP_SECONDS = 3.0
LOST_STATUS = 255
"""The exit code in place of one that could not be had."""

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative for a signal), when, and the end of its stderr.

    `stdout` is the end of that, where it was passed on by lines.
    """

    exit_code: int
    time: float
    stderr: str
    stdout: str = ""


class StopRequest:
    """Whether somebody wants the job to end: a signal, or the launcher's end of a pipe closed.

    `at` is when it was first asked for and `grace` how many seconds the processes have to save their
    work. SageMaker sends SIGTERM and kills after 120 s (API reference, StopTrainingJob); ten of them are
    left for the boot's own end. As long as `held_by` is true, which is given the grace, the processes are not
    asked yet.
    """

    GRACE_SECONDS = 110.0
    LIFELINE_GRACE_SECONDS = 10.0
    LOOK_SECONDS = 1.0
    """Between two looks for the file that asks: it lies on a folder that all hosts share."""

    def __init__(self) -> None:
        self.at: float | None = None
        self.grace = self.GRACE_SECONDS
        self.signal = signal.SIGTERM
        self.pending: list[int] = []
        self.held_by: Callable[[float], bool] = lambda _: False

    def listen(self, lifeline: str | None, stop_file: str | None = None) -> None:
        """Take SIGTERM and SIGINT, and watch the file descriptor `lifeline` where one is given.

        Where `stop_file` names a file, its appearance asks for the end as SIGTERM does: of schedulers that
        signal all processes of a host at once, torchrun among them, which gives its ranks less time.
        Also undoes that SIGCHLD is ignored, as by some who start this: no process below would have an exit
        status. Raises BootError (CODE002) for a `lifeline` that is none.
        """
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if lifeline:
            descriptor = _open_descriptor(lifeline)
            threading.Thread(target=self._watch, args=(descriptor,), daemon=True).start()
        if stop_file:
            threading.Thread(target=self._watch_for, args=(Path(stop_file),), daemon=True).start()

    def request(self, number: int) -> None:
        """Ask for the end with this signal; a second one is handed on as well."""
        if self.at is None:
            self.at, self.signal = time.time(), signal.Signals(number)
        self.pending.append(number)

    def _on_signal(self, number: int, frame: object) -> None:
        # Plain attributes: a lock or an event taken here could be held by the interrupted code.
        self.request(number)

    def _watch(self, descriptor: int) -> None:
        """The pipe is at its end when the launcher is gone, however it went."""
        while os.read(descriptor, 1):
            pass
        self.grace = self.LIFELINE_GRACE_SECONDS
        self.request(signal.SIGTERM)

    def _watch_for(self, file: Path) -> None:
        while not file.exists():
            time.sleep(self.LOOK_SECONDS)
        self.request(signal.SIGTERM)


def _open_descriptor(text: str) -> int:
    try:
        descriptor = int(text)
        os.fstat(descriptor)
    except (ValueError, OverflowError, OSError) as error:
        raise BootError(
            "CODE002",
            f"SLIPWAY_LIFELINE is {text!r}, which is no open file descriptor ({error}), so the job would not "
            "end with its launcher: the launcher sets this variable itself; take it out of `environment` and "
            "of the image",
        ) from None
    return descriptor


def supervise(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    stop: StopRequest,
    targets: Callable[[int], list[int]],
    streams: tuple[Path | None, Path | None] | None = None,
    beside: Callable[[int], None] = lambda _: None,
    masking: Masking = NOTHING_MASKED,
    read: Callable[[bytes], None] = lambda _: None,
) -> Ended:
    """Run a command to its end, and everything that it started.

    A requested stop is sent to the processes that `targets` names for the command's own process id, as
    soon as it names any; what is left after the grace is killed. With `streams`, the lines of its stdout are
    passed on whole, as those of its stderr always are, and both are also kept in these two files, where they
    are given. What `masking` hides is in none of it. `beside` is called with the command's process id as
    long as it runs, ten times a second; `read` gets what is passed on.
    """
    adopt_orphans()
    process = subprocess.Popen(
        list(command),
        env=dict(environment),
        cwd=folder,
        stdout=subprocess.PIPE if streams else None,
        stderr=subprocess.PIPE,
        # Ctrl-C in a terminal goes to the foreground group: the boot alone must decide what it means.
        start_new_session=True,
    )
    copies = [KeptLog(copy, tell=say) if copy is not None else None for copy in streams or (None, None)]
    relays = [Relay(process.stderr, sys.stderr, copies[1], masking, read=read)]
    if streams:
        relays.append(Relay(process.stdout, sys.stdout, copies[0], masking, read=read))
    try:
        _wait(process, stop, targets, beside)
        ended = time.time()
    finally:
        sweep()
    for relay in relays:
        relay.join(timeout=SWEEP_SECONDS)
    if process.returncode == LOST_STATUS:
        say(f"how {command[0]} ended is not known, so that it counts as failed: its status was lost")
    return Ended(process.returncode, ended, *(relay.tail for relay in relays))


def poll_end(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process that has ended, negative for a signal; None while it runs.

    LOST_STATUS where somebody else had its status: Popen itself takes that for 0.
    """
    if process.returncode is None:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            process.returncode = LOST_STATUS
        else:
            if pid:
                # os.waitstatus_to_exitcode came with Python 3.9.
                signaled = os.WIFSIGNALED(status)
                process.returncode = -os.WTERMSIG(status) if signaled else os.WEXITSTATUS(status)
    return process.returncode


def process_itself(pid: int) -> list[int]:
    """The process alone: what a script that was started directly wants to be stopped by."""
    return [pid]


def workers(pid: int) -> list[int]:
    """The children that torchrun gave a rank."""
    return [child for child in _children().get(pid, []) if _is_worker(child)]


def running_below(shell: int) -> list[int]:
    """What a shell script runs, by its shell's process id: the ranks below it, else its own children.

    The shell itself would die of the signal at once and leave the others no time. It is named where it runs
    nothing, and where another program has taken its place (`exec`).
    """
    children = _children()
    return _ranks_below(shell, children) or _past_shells(shell, children)


def sweep() -> None:
    """End every process that is still below this one: asked first, killed after three seconds."""
    killing = time.monotonic() + SWEEP_SECONDS
    giving_up = killing + SWEEP_SECONDS
    asked: set[int] = set()
    while time.monotonic() < giving_up:
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            if time.monotonic() > killing:
                send_signal(pid, signal.SIGKILL)
            elif pid not in asked:
                send_signal(pid, signal.SIGTERM)
                asked.add(pid)
        time.sleep(POLL_SECONDS / 2)


def descendants(pid: int) -> list[int]:
    """All living processes below a process, parents before their children."""
    return families([pid])[0][1:]


def families(pids: Sequence[int]) -> list[list[int]]:
    """For each process itself and all living processes below it, parents before their children."""
    children = _children()
    found = []
    for pid in pids:
        family = [pid]
        for member in family:
            family += children.get(member, [])
        found.append(family)
    return found


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _wait(
    process: subprocess.Popen[bytes],
    stop: StopRequest,
    targets: Callable[[int], list[int]],
    beside: Callable[[int], None],
) -> None:
    deadline = math.inf
    orphans = Orphans()
    while poll_end(process) is None:
        orphans.reap()
        beside(process.pid)
        if stop.pending:
            deadline = min(deadline, time.monotonic() + stop.grace)
            asked = [] if stop.held_by(stop.grace) else targets(process.pid)
            number = stop.pending.pop(0) if asked else 0
            for pid in asked:
                send_signal(pid, number)
        if time.monotonic() > deadline:
            for pid in descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _ranks_below(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    """The topmost processes with a rank: what these start themselves, such as data loaders, has it too."""
    found: list[int] = []
    for child in children.get(pid, []):
        found += [child] if _is_worker(child) else _ranks_below(child, children)
    return found


def _past_shells(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    if not _is_shell(pid):
        return [pid]
    return [found for child in children.get(pid, []) for found in _past_shells(child, children)] or [pid]


def _is_shell(pid: int) -> bool:
    """Whether a process is a shell; unknown where the system does not tell, and then it is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").resolve(strict=True).name in _SHELLS
    return False


def _is_worker(pid: int) -> bool:
    """Whether torchrun gave this child a rank; true where the system does not tell."""
    with contextlib.suppress(OSError):
        return b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    return not Path("/proc/self/environ").exists()


def _children() -> dict[int, list[int]]:
    """The living children of every process."""
    children: dict[int, list[int]] = {}
    for pid, parent in _from_proc() if Path("/proc/self/stat").exists() else _from_ps():
        children.setdefault(parent, []).append(pid)
    return children


def _from_proc() -> list[tuple[int, int]]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold spaces and parentheses itself (proc(5)).
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                found.append((int(folder.name), int(parent)))
    return found


def _from_ps() -> list[tuple[int, int]]:
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True) as ps:
        rows = [line.split() for line in ps.communicate()[0].splitlines()]
    return [(int(row[0]), int(row[1])) for row in rows if row[2][0] != "Z" and int(row[0]) != ps.pid]


# Processes whose parent has ended: they become this one's, so that they are found and leave no zombie.


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can still be found.

    Linux only (prctl(2), PR_SET_CHILD_SUBREAPER); elsewhere orphans go to the system's first process.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Orphans:
    """Takes note of the end of processes that nobody else waits for; where there is no /proc, of none.

    Whoever starts a process waits for it. One that ended and is still there some seconds later has nobody
    who does.
    """

    PATIENCE_SECONDS = 5.0
    _BETWEEN_LOOKS = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._seen: dict[int, float] = {}

    def reap(self) -> None:
        """Look at most once a second."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._BETWEEN_LOOKS
        ended = _ended_children()
        self._seen = {pid: self._seen.get(pid, now) for pid in ended}
        for pid, since in self._seen.items():
            if now - since >= self.PATIENCE_SECONDS:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _ended_children() -> list[int]:
    """The children of this process that have ended, and that nobody has waited for."""
    with contextlib.suppress(AttributeError, OSError):
        # The system knows at once whether there is any; only then each process is looked at.
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return []
    own, found = str(os.getpid()), []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold spaces and parentheses itself (proc(5)).
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z" and parent == own:
                found.append(int(file.parent.name))
    return found
