"""What is known of a local job: its record in memory, and on the disk for other launchers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.backends.interface import JobState, JobStatus
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.state_files import UnreadableJob, read_state, write_state
from launcher.diagnosis.ending import Stop, StopCause

STATUS_FILE = "status.json"
"""In a job's folder; its presence makes the folder one of a job."""

MAX_HOSTS = 1000
"""More hosts than a local run could have; a record that says more is broken."""

LATEST = 253_402_300_799.0
"""The last second of the year 9999, beyond which Python has no dates."""


@dataclass(frozen=True, slots=True)
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
            raise UnreadableJob(file, f"its {name} is {_shown(value)}")
        return value

    def path(name: str) -> Path | None:
        text = checked(name, lambda value: value is None or isinstance(value, str))
        return Path(text) if text else None

    launcher = checked("launcher", lambda value: isinstance(value, dict))
    return JobRecord(
        folder=folder,
        launcher=ProcessId(
            checked("pid", lambda value: _is_whole(value) and value > 0, launcher),
            checked("started", _is_time, launcher),
        ),
        hosts=checked("hosts", lambda value: _is_whole(value) and 0 < value <= MAX_HOSTS),
        state=JobState(checked("state", lambda value: isinstance(value, str) and value in set(JobState))),
        phase=checked("phase", lambda value: isinstance(value, str)),
        failure_reason=checked("failure_reason", lambda value: value is None or isinstance(value, str)),
        started=checked("started", _is_time),
        ended=checked("ended", lambda value: value is None or _is_time(value)),
        python=path("python"),
        environment=path("environment"),
        gpus=checked("gpus", lambda value: value is None or isinstance(value, bool)),
        stop=_stop_in(checked("stop", lambda value: value is None or _is_stop(value))),
    )


def status_file(folder: Path) -> Path:
    """The file in a job's folder that holds its record."""
    return folder / STATUS_FILE


def _stop_in(value: Mapping[str, Any] | None) -> Stop | None:
    if value is None:
        return None
    return Stop(StopCause(value["cause"]), value.get("who"), value.get("at"), value.get("limit"))


def _is_stop(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("cause"), str)
        and value["cause"] in set(StopCause)
        and isinstance(value.get("who"), str | None)
        and all(value.get(name) is None or _is_time(value[name]) for name in ("at", "limit"))
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        # Neither holds for what is no number, and both can be asked of an integer of any length.
        and 0 <= value <= LATEST
    )


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.40}"
