"""What is known of local jobs: the record of one in memory and on the disk, and the folder of them all."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.backends.interface import BackendError, JobState, JobStatus, UnknownJob
from launcher.backends.local.files import UnreadableJob, hosts_of, read_state, write_state
from launcher.backends.local.processes import ORPHANED_FILE, ProcessId, boots_among, kill_all, processes_of
from launcher.diagnosis.model import Stop, StopCause
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure
from launcher.frozen import frozen

if TYPE_CHECKING:
    from launcher.planning.request_view import Request

STATUS_FILE = "status.json"
"""In a job's folder; its presence makes the folder one of a job."""

MAX_HOSTS = 1000
"""More hosts than a local run could have; a record that says more is broken."""

LATEST = 253_402_300_799.0
"""The last second of the year 9999, beyond which Python has no dates."""


@frozen
class JobRecord:
    """A job at one moment, as its status file holds it. Times are seconds since the epoch.

    `folder` is where the job lies, which the file need not say; `python` is the Python that was chosen for
    it, `environment` the folder with what it requires besides, None where that is nothing; `gpus` says
    whether its hosts see any, None like `python` for runs of older launchers. `stop` is what ended the job
    from outside, or is about to.
    """

    folder: Path
    launcher: ProcessId
    hosts: int
    state: JobState = JobState.IN_PROGRESS
    phase: str = "Starting"
    failure_reason: str | None = None
    started: float = field(default_factory=time.time)
    ended: float | None = None
    python: Path | None = None
    environment: Path | None = None
    gpus: bool | None = None
    stop: Stop | None = None

    @property
    def name(self) -> str:
        """The job's name, which is that of its folder."""
        return self.folder.name

    def changed(
        self,
        state: JobState,
        phase: str | None = None,
        failure_reason: str | None = None,
        stop: Stop | None = None,
    ) -> JobRecord:
        """The record with another state; without a phase, the state's own name is the phase."""
        return replace(
            self,
            state=state,
            phase=phase or state.value,
            failure_reason=failure_reason,
            stop=stop,
            ended=time.time() if state.is_final else None,
        )

    def write(self) -> None:
        """Write the file. Raises OSError, such as on a full disk."""
        content = {"name": self.name, **asdict(self)}
        del content["folder"]
        for name in ("python", "environment"):
            content[name] = str(content[name]) if content[name] else None
        write_state(status_file(self.folder), content)

    def status(self) -> JobStatus:
        """The record in the form that every backend gives."""
        return JobStatus(
            name=self.name,
            state=self.state,
            phase=self.phase,
            failure_reason=self.failure_reason,
            checkpoints=str(self.folder / "checkpoints"),
            output=str(self.folder / "hosts"),
            seconds=(self.ended or time.time()) - self.started,
            hosts=self.hosts,
            gpus=self.gpus,
            stop=self.stop,
        )


def read_record(folder: Path) -> JobRecord:
    """The record of the job in `folder`. Fields that are not known here are left out.

    Raises FileNotFoundError where there is none, UnreadableJob for a file that holds no record.
    """
    file = status_file(folder)
    content = read_state(file)

    def checked(name: str, good: Callable[[Any], bool], source: Mapping[str, Any] = content) -> Any:
        value = source.get(name)
        if not good(value):
            found = "missing" if value is None else f"{value!r:.40}"
            raise UnreadableJob(file, f"its {name} is {found}")
        return value

    def path(name: str) -> Path | None:
        text = checked(name, lambda value: value is None or isinstance(value, str))
        return Path(text) if text else None

    launcher = checked("launcher", lambda value: isinstance(value, dict))
    return JobRecord(
        folder=folder,
        launcher=ProcessId(
            checked("pid", lambda value: is_whole(value) and value > 0, launcher),
            checked("started", is_time, launcher),
        ),
        hosts=checked("hosts", lambda value: is_whole(value) and 0 < value <= MAX_HOSTS),
        state=JobState(checked("state", lambda value: isinstance(value, str) and value in set(JobState))),
        phase=checked("phase", lambda value: isinstance(value, str)),
        failure_reason=checked("failure_reason", lambda value: value is None or isinstance(value, str)),
        started=checked("started", is_time),
        ended=checked("ended", lambda value: value is None or is_time(value)),
        python=path("python"),
        environment=path("environment"),
        gpus=checked("gpus", lambda value: value is None or isinstance(value, bool)),
        stop=stop_in(checked("stop", lambda value: value is None or is_stop(value))),
    )


def status_file(folder: Path) -> Path:
    """The file in a job's folder that holds its record."""
    return folder / STATUS_FILE


def stop_in(value: Mapping[str, Any] | None) -> Stop | None:
    """The stop that a status file holds."""
    if value is None:
        return None
    return Stop(StopCause(value["cause"]), value.get("who"), value.get("at"), value.get("limit"))


def is_stop(value: object) -> bool:
    """Whether a status file's value is a stop."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("cause"), str)
        and value["cause"] in set(StopCause)
        and isinstance(value.get("who"), str | None)
        and all(value.get(name) is None or is_time(value[name]) for name in ("at", "limit"))
    )


def is_whole(value: object) -> bool:
    """Whether it is a whole number; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(value: object) -> bool:
    """Whether it is a time of which Python has a date, in seconds since the epoch."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        # Neither holds for what is no number, and both can be asked of an integer of any length.
        and 0 <= value <= LATEST
    )


FIGURES = (Figure("63", "characters of a job's name", sources.TRAINING_JOB_API),)


REQUEST_FILE = "request.json"
"""In a job's folder: the request that it was started from."""

_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


class RunFolder:
    """The runs below `home`, each a folder that holds a status file; `kind` is what people call them.

    `place` is where they really are, in words, if `home` only mirrors it.
    """

    kind: ClassVar[str] = "local job"

    def __init__(self, home: Path, place: str | None = None) -> None:
        self.home = home.absolute()
        self.place = place or str(self.home)

    def names(self) -> list[str]:
        """The jobs below the home folder, readable or not, in the order of their names.

        Raises BackendError where the home folder itself cannot be looked into.
        """
        try:
            return sorted(each.name for each in self.home.iterdir() if self.holds(each.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BackendError(
                f"{self.home}, the folder of the {self.kind}s, cannot be read: {error.strerror}.",
                "Make it readable, or delete what lies there.",
            ) from error

    def holds(self, job_name: str) -> bool:
        """Whether there is a job of that name here, readable or not."""
        return _is_name(job_name) and os.path.lexists(status_file(self.home / job_name))

    def folder(self, job_name: str) -> Path:
        """Where a job of that name is, or would be. Raises BackendError for what is no name of a job."""
        if not _is_name(job_name):
            raise BackendError(
                f"{job_name!r} is not the name of a training job.",
                "Names have letters, digits and single hyphens, at most 63.",
            )
        return self.home / job_name

    def request(self, job_name: str) -> Request:
        """The request that a job was started from.

        Raises UnknownJob where there is no such job, UnreadableJob where its request cannot be read.
        """
        if not self.holds(job_name):
            raise self.unknown(job_name)
        folder = self.home / job_name
        try:
            content = read_state(folder / REQUEST_FILE)
        except FileNotFoundError:
            raise UnreadableJob(folder / REQUEST_FILE, "it is not there") from None
        # The first launchers wrote the request alone.
        request = content.get("request") if "format" in content else content
        if not isinstance(request, dict):
            raise no_request(folder)
        return request

    def resumable_request(self, job_name: str) -> Request:
        """The request that a job was started from, complete enough to go on from. Raises as `request`."""
        # Only those who go on from a job need it.
        from launcher.planning.finished_request import is_resumable

        request = self.request(job_name)
        if not is_resumable(request):
            raise no_request(self.folder(job_name))
        return request

    def known(self) -> str:
        """The names of the jobs, for a message."""
        return ", ".join(self.names()) or "none"

    def unknown(self, job_name: str) -> UnknownJob:
        """What to raise for a name that no job has."""
        return UnknownJob(
            f"there is no {self.kind} {job_name} below {self.place}; there are: {self.known()}.",
            "Correct the name, or go to the project in which it was launched.",
        )


class JobStore(RunFolder):
    """The jobs on this machine, as their files and processes show them."""

    def unreadable(self) -> list[UnreadableJob]:
        """What is wrong with those jobs that cannot be read, in the order of their names."""
        found = []
        for name in self.names():
            try:
                self.record(name)
            except UnreadableJob as problem:
                found.append(problem)
            except UnknownJob:
                continue  # Deleted since.
        return found

    def record(self, job_name: str) -> JobRecord:
        """What a job's status file says. Raises UnknownJob where there is none, or UnreadableJob."""
        # What is not a name could be a path to somewhere else.
        if not self.holds(job_name):
            raise self.unknown(job_name)
        try:
            return read_record(self.home / job_name)
        except FileNotFoundError as error:
            file = status_file(self.home / job_name)
            if os.path.lexists(file):
                raise UnreadableJob(file, "it is a link to what is not there") from error
            raise self.unknown(job_name) from None

    def living_record(self, job_name: str) -> JobRecord:
        """A job's record, with what has become of the job since: one whose launcher was killed was stopped.

        What is left of such a job is ended here.
        """
        record = self.record(job_name)
        if record.state.is_final or record.launcher.is_alive:
            return record
        # Its state may have become final between reading it and looking at its launcher.
        record = self.record(job_name)
        if record.state.is_final:
            return record
        if boots_among(processes_of(record.folder)):
            stop = record.stop or _end_by_keeper(record)
            return replace(record, state=JobState.STOPPING, phase=JobState.STOPPING.value, stop=stop)
        kill_all(record.folder)
        return _close_orphaned_record(record)


def no_request(folder: Path) -> UnreadableJob:
    """What to raise for a request file with something else in it."""
    return UnreadableJob(folder / REQUEST_FILE, "it holds no request of a training job")


def _close_orphaned_record(record: JobRecord) -> JobRecord:
    """The record of a job whose launcher is gone, as stopped, and without the drafts that it left.

    It ended when its hosts last printed something, or when its launcher was gone. A stop that was under way
    already is what ended it.
    """
    folder = record.folder
    stop = record.stop or _end_by_keeper(record)
    ends = [*_times(host.log for host in hosts_of(folder, record.hosts)), *([stop.at] if stop.at else [])]
    record = record.changed(JobState.STOPPED, stop=stop)
    record = replace(record, ended=max(record.started, *ends) if ends else record.ended)
    # On a full or read-only disk the next one to look finds the same.
    with contextlib.suppress(OSError):
        for draft in folder.glob("*.new"):
            draft.unlink()
        record.write()
    return record


def _end_by_keeper(record: JobRecord) -> Stop:
    """The end of a job by that of its launcher, at the time that its keeper saw."""
    seen = _times([record.folder / ORPHANED_FILE])
    return Stop(StopCause.LAUNCHER, f"process {record.launcher.pid}", seen[0] if seen else None)


def _times(files: Iterable[Path]) -> list[float]:
    """When those of the files that are there were last written, none of it in the future."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(min(file.stat().st_mtime, time.time()))
    return found


def _is_name(text: str) -> bool:
    return len(text) <= 63 and _JOB_NAME.fullmatch(text) is not None
