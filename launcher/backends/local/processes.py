"""The processes of a local job, found by the environment that every one of them inherits.

Parents and process groups do not suffice: torchrun gives its workers sessions of their own, and an
orphan has no parent left to be found by.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from launcher.backends.local.files import ROOT_VARIABLE
from launcher.frozen import frozen
from launcher.source.packaging import BOOT_NAME

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, OSError)


@frozen
class ProcessId:
    """A process for good: its id may be given to another one later, but not with the same start."""

    pid: int
    started: float

    @classmethod
    def of_this_process(cls) -> ProcessId:
        """The launcher's own."""
        process = psutil.Process()
        return cls(process.pid, process.create_time())

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        with contextlib.suppress(*_GONE):
            process = psutil.Process(self.pid)
            return process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE
        return False


def processes_of(folder: Path) -> list[psutil.Process]:
    """The living processes of the job in `folder`, or of the jobs below it, whoever their parent is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            if process.environ().get(ROOT_VARIABLE, "").startswith(f"{folder}/"):
                found.append(process)
    return found


def busy_jobs(home: Path) -> frozenset[str]:
    """The names of those jobs below `home` of which a process lives."""
    found = set()
    for process in processes_of(home):
        with contextlib.suppress(*_GONE):
            found.add(Path(process.environ()[ROOT_VARIABLE]).relative_to(home).parts[0])
    return frozenset(found)


def boots_among(processes: Collection[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that are a host's boot."""
    boots = []
    for process in processes:
        with contextlib.suppress(*_GONE):
            if any(word.endswith(f"/{BOOT_NAME}") for word in process.cmdline()[1:2]):
                boots.append(process)
    return boots


def kill(processes: Collection[psutil.Process]) -> None:
    """SIGKILL to each that still lives."""
    for process in processes:
        with contextlib.suppress(*_GONE):
            process.kill()


def kill_all(folder: Path, patience: float = 10.0) -> None:
    """Kill the job's processes until none is left, at most for `patience` seconds."""
    deadline = time.monotonic() + patience
    while (left := _with_relatives(processes_of(folder))) and time.monotonic() < deadline:
        kill(left)
        psutil.wait_procs(left, timeout=0.5)


def _with_relatives(found: Collection[psutil.Process]) -> list[psutil.Process]:
    """These processes, what is below them, and what is in their sessions: some clear their environment.

    Of sessions only those that a process of the job began, so never that of a user's terminal. Whoever left
    session, parent and environment all three is not found.
    """
    relatives = {process.pid: process for process in found}
    for process in found:
        with contextlib.suppress(*_GONE):
            relatives |= {child.pid: child for child in process.children(recursive=True)}
    sessions = {sid for pid in relatives if (sid := _session_of(pid)) in relatives}
    if sessions:
        others = (each for each in psutil.process_iter() if _session_of(each.pid) in sessions)
        relatives |= {each.pid: each for each in others}
    relatives.pop(os.getpid(), None)
    return list(relatives.values())


def _session_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


LOST_STATUS = 256
"""In place of an exit code that could not be had; no process ends with it."""


def poll_end(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process that has ended, negative for a signal; None while it runs.

    LOST_STATUS where it ended and nobody kept its status for us, as for a parent that ignores SIGCHLD: Popen
    itself takes that for 0. Where a process is waited for with this, nobody else may wait for it.
    """
    if process.returncode is None:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            process.returncode = LOST_STATUS
        else:
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process, when it has ended, as `poll_end` has it."""
    while (code := poll_end(process)) is None:
        time.sleep(_POLL_SECONDS / 4)
    return code


def signal_running(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process that was started here, if it has not ended."""
    if poll_end(process) is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


PATIENCE_SECONDS = 30.0
"""For the boots to end the job in order: they give its processes 10 s to save their work, and sweep for up
to 6 s (slipway/processes/supervise.py)."""

ORPHANED_FILE = "orphaned"
"""In a job's folder; its time is when the launcher was gone, which nobody else saw."""

_POLL_SECONDS = 0.2


def start_keeper(folder: Path, lifeline: int) -> subprocess.Popen[bytes]:
    """Start a keeper of the job in `folder`; kill it when the job is over.

    `lifeline` is the reading end of a pipe whose other end only the launcher holds. Raises OSError where no
    process can be started.
    """
    places = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        # -P: a folder `launcher` in the working directory is not ours.
        [sys.executable, "-P", "-m", __name__, str(lifeline), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lifeline,),
        # Out of reach of what is sent to the launcher's terminal or process group.
        start_new_session=True,
    )


def keep(lifeline: int, folder: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Wait for the end of the pipe, give the boots time to end their job, and kill what is left of it."""
    while os.read(lifeline, 1):
        pass
    with contextlib.suppress(OSError):
        (folder / ORPHANED_FILE).touch()
    deadline = time.monotonic() + patience
    while boots_among(processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    kill_all(folder)


if __name__ == "__main__":
    keep(int(sys.argv[1]), Path(sys.argv[2]))
