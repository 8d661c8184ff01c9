"""One running local job: its boots, watched from a thread until nothing of it is left, and why it failed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from launcher.backends.interface import JobState
from launcher.backends.local.files import Host, is_asked_to_stop, who_asked
from launcher.backends.local.processes import (
    LOST_STATUS,
    boots_among,
    kill,
    kill_all,
    poll_end,
    processes_of,
    signal_running,
    start_keeper,
)
from launcher.backends.local.records import JobRecord
from launcher.diagnosis.model import Stop, StopCause
from launcher.failure_modes import disk, hardware
from launcher.failure_modes.model import Symptom
from launcher.failure_modes.registry import CATALOGUE
from launcher.frozen import frozen
from launcher.text.regular_files import read_regular

POLL_SECONDS = 0.1


@frozen
class Grace:
    """How many seconds processes have at the end of a job.

    `stop`: from SIGTERM to SIGKILL when the job is stopped; SageMaker gives 120 s, a person at a
    terminal waits less gladly. `peers`: for the other hosts after one has failed, to fail by themselves
    and then to end after SIGTERM; they may be waiting for the dead one for ever. `report`: for a boot
    whose processes were killed, to say why.
    """

    stop: float = 30.0
    peers: float = 5.0
    report: float = 5.0


@frozen
class _Schedule:
    """When what is done to end a job before its hosts do by themselves (monotonic).

    `stop` says why, None where one of its hosts has failed.
    """

    stop: Stop | None
    terminate_at: float
    kill_at: float


class LocalJob(threading.Thread):
    """Starts the boots of a prepared job, and sees it to its end.

    What counts is the record in memory: it changes whatever can be written. Each change is also written to
    the disk, for other launchers; the final one when no process is left. The boots hold the reading end of
    a pipe: when this process is gone, however it went, they see the end of it and stop by themselves, and
    a keeper, which holds it too, ends what is left.
    """

    def __init__(
        self, record: JobRecord, hosts: Sequence[Host], *, max_seconds: float, grace: Grace | None = None
    ) -> None:
        super().__init__(name=record.name, daemon=True)
        self.folder = record.folder
        self._record = record
        self._trouble: str | None = None
        self._asked_to_stop = threading.Event()
        self._who_asked: str | None = None
        self._hosts = hosts
        self._max_seconds = max_seconds
        self._grace = grace or Grace()
        self._boots: dict[Host, subprocess.Popen[bytes]] = {}
        self._ends: dict[Host, HostEnd] = {}
        self._ending: _Schedule | None = None
        self._terminated = False
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    def launch(
        self, commands: Mapping[Host, Sequence[str]], environments: Mapping[Host, Mapping[str, str]]
    ) -> None:
        """Start the boots and the watch over them. Raises OSError where a boot cannot be started."""
        reading, self._lifeline = os.pipe()
        try:
            self._keeper = start_keeper(self.folder, reading)
            for host in self._hosts:
                self._boots[host] = _start(host, commands[host], environments[host], reading)
        except BaseException:
            self._clean_up()
            raise
        finally:
            os.close(reading)
        self._change(JobState.IN_PROGRESS, "Training")
        self.start()

    @property
    def record(self) -> JobRecord:
        """How the job is, whatever the disk holds of it."""
        return self._record

    @property
    def trouble(self) -> str | None:
        """Why some of what should be on the disk about the job is not, None where all is."""
        return self._trouble

    def stop(self, who: str | None = None) -> None:
        """Ask the job to stop, and say who asks; returns before it has. Who asks first counts."""
        if not self._asked_to_stop.is_set():
            self._who_asked = who
        self._asked_to_stop.set()

    def run(self) -> None:
        """Watch the boots until all have ended, then leave nothing behind and say how it went.

        Whatever goes wrong in here ends the job as failed: nobody else could end it.
        """
        try:
            self._watch()
            self._clean_up()
            self._conclude()
        except Exception as error:
            with contextlib.suppress(Exception):
                self._clean_up()
            self._change(JobState.FAILED, failure_reason=self._broken_off(error))

    def _broken_off(self, error: Exception) -> str:
        if _is_disk_full(error):
            return f"InternalServerError: {disk_full(self.folder)}"
        trouble = f"{type(error).__name__}: {error}"
        return f"InternalServerError: the launcher could not go on with the job: {trouble}"

    def _change(
        self,
        state: JobState,
        phase: str | None = None,
        failure_reason: str | None = None,
        stop: Stop | None = None,
    ) -> None:
        changed = self._record.changed(state, phase, failure_reason, stop)
        try:
            with self._noting_trouble():
                changed.write()
        finally:
            # Last, so that whoever sees the job ended sees with it what could not be written.
            self._record = changed

    @contextlib.contextmanager
    def _noting_trouble(self) -> Iterator[None]:
        """Go on where the disk takes nothing: what is written here only tells others of the job."""
        try:
            yield
        except OSError as error:
            full = _is_disk_full(error)
            what = f"the disk of {self.folder} is full" if full else f"{error.filename}: {error.strerror}"
            self._trouble = f"{what}; what is kept there of this job is not complete"

    def _watch(self) -> None:
        while len(self._ends) < len(self._boots):
            self._note_ends()
            if self._ending is None:
                self._ending = self._why_end()
            if self._ending is not None:
                self._end(self._ending)
            time.sleep(POLL_SECONDS)

    def _note_ends(self) -> None:
        for host, boot in self._boots.items():
            if host not in self._ends and (code := poll_end(boot)) is not None:
                self._ends[host] = HostEnd(host, code, time.time())

    def _why_end(self) -> _Schedule | None:
        now = time.monotonic()
        failed = any(end.exit_code != 0 for end in self._ends.values())
        if failed:
            terminate_at = now + self._grace.peers
            return _Schedule(None, terminate_at, terminate_at + self._grace.peers)
        stop = self._stop_asked_for()
        if stop is None:
            return None
        self._change(JobState.STOPPING, stop=stop)
        return _Schedule(stop, now, now + self._grace.stop)

    def _stop_asked_for(self) -> Stop | None:
        now = time.time()
        if now - self._record.started > self._max_seconds:
            return Stop(StopCause.MAX_RUNTIME, at=now, limit=self._max_seconds)
        if self._asked_to_stop.is_set():
            return Stop(StopCause.ASKED, self._who_asked, now)
        if is_asked_to_stop(self.folder):
            return Stop(StopCause.ASKED, who_asked(self.folder), now)
        return None

    def _end(self, ending: _Schedule) -> None:
        now = time.monotonic()
        running = [boot for host, boot in self._boots.items() if host not in self._ends]
        if now >= ending.terminate_at and not self._terminated:
            self._terminated = True
            for boot in running:
                signal_running(boot, signal.SIGTERM)
        if now >= ending.kill_at:
            # The boots live a little longer: with its ranks gone, each can still say what had failed.
            left = processes_of(self.folder)
            kill(set(left) - set(boots_among(left)))
        if now >= ending.kill_at + self._grace.report:
            for boot in running:
                signal_running(boot, signal.SIGKILL)

    def _clean_up(self) -> None:
        kill_all(self.folder)
        for boot in self._boots.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                boot.wait(timeout=self._grace.report)
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _conclude(self) -> None:
        ending, ends = self._ending, list(self._ends.values())
        if ending is not None and ending.stop is not None:
            expired = ending.stop.cause is StopCause.MAX_RUNTIME
            self._change(JobState.STOPPED, "MaxRuntimeExceeded" if expired else None, stop=ending.stop)
        elif any(end.exit_code != 0 for end in ends):
            self._change(JobState.FAILED, failure_reason=failure_reason(ends))
        else:
            self._change(JobState.COMPLETED)


def _is_disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _start(
    host: Host, command: Sequence[str], environment: Mapping[str, str], lifeline: int
) -> subprocess.Popen[bytes]:
    # What the interpreter prints before the boot runs; from then on the boot writes the log itself.
    with host.log.open("ab") as log:
        return subprocess.Popen(
            list(command),
            env={**environment, "SLIPWAY_LIFELINE": str(lifeline), "SLIPWAY_LOG": str(host.log)},
            cwd=host.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lifeline,),
            # Ctrl-C at the launcher's terminal must reach the launcher alone, which then stops the job.
            start_new_session=True,
        )


FULL_BELOW_BYTES = 64 * 1024
"""A disk with less room counts as full: no report, log line or status can be relied on to fit."""

_WITHOUT_A_REPORT = len(Symptom) + 1
"""Weaker evidence than any symptom: a host whose boot wrote nothing."""

_REPORT_BYTES = 64 * 1024
"""More than a report ever has (slipway/failure.py writes 980 characters)."""


@frozen
class HostEnd:
    """How a host's boot ended: its exit code (negative for a signal, or LOST_STATUS) and when it was seen."""

    host: Host
    exit_code: int
    time: float


def failure_reason(ends: Iterable[HostEnd]) -> str:
    """The failure reason of a job, in the service's form, from the host that failed first.

    A host with a mere symptom loses against any other, one that left no report against any that did.
    """
    candidates = [_candidate(end) for end in ends if end.exit_code != 0]
    _, text, end = min(candidates, key=lambda candidate: candidate[0])
    code = 128 - end.exit_code if end.exit_code < 0 else end.exit_code
    return f"AlgorithmError: {text}, exit code: {code}"


def disk_is_full(folder: Path) -> bool:
    """Whether next to nothing can be written to the disk of a folder any more."""
    try:
        return shutil.disk_usage(folder).free < FULL_BELOW_BYTES
    except OSError:
        return False


def disk_full(folder: Path) -> str:
    """What to say of the full disk of a folder, with the code first as in the boot's reports."""
    return (
        f"{disk.DISK_FULL.code} the disk of {folder} is full (No space left on device): free some of it, "
        f"such as old runs in {folder.parent}, or launch from a folder on another disk"
    )


def _candidate(end: HostEnd) -> tuple[tuple[int, float], str, HostEnd]:
    try:
        text = read_regular(end.host.failure, _REPORT_BYTES).decode("utf-8", "replace")
        # The boot gives its report the time of the failure itself.
        when = end.host.failure.stat().st_mtime
    except OSError:
        text, when = "", end.time
    if text:
        mode = CATALOGUE.get(text.split(" ", 1)[0])
        return (mode.weakness if mode else 0, when), text, end
    if end.exit_code == -9:
        code, host = hardware.HOST_OUT_OF_MEMORY.code, end.host.name
        text = f"{code} {host}: the boot was killed by SIGKILL: the usual reason is host memory"
        return (0, end.time), text, end
    if disk_is_full(end.host.folder):
        return (_WITHOUT_A_REPORT, end.time), disk_full(end.host.job_folder), end
    text = f"{end.host.name}: the boot ended without a report; {end.host.log} shows what it printed"
    if end.exit_code == LOST_STATUS:
        text = (
            f"{end.host.name}: how the boot ended is not known, so that the run may not be called completed: "
            "this process ignores SIGCHLD, or something else in it waits for all children; undo that before "
            "the launch: signal.signal(signal.SIGCHLD, signal.SIG_DFL)"
        )
    return (_WITHOUT_A_REPORT, end.time), text, end
