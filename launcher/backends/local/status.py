"""What is known of a local job: its status file, and what its hosts report of a failure."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launcher.backends.interface import JobState, JobStatus
from launcher.backends.local.hosts import Host
from launcher.backends.local.processes import ProcessId
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.hardware import HOST_OUT_OF_MEMORY
from launcher.failure_modes.model import Symptom

_WITHOUT_A_REPORT = len(Symptom) + 1
"""Weaker evidence than any symptom: a host whose boot wrote nothing."""


@dataclass(slots=True)
class JobRecord:
    """A job's status file. Times are seconds since the epoch."""

    name: str
    folder: str
    launcher: ProcessId
    hosts: int
    state: JobState = JobState.IN_PROGRESS
    phase: str = "Starting"
    failure_reason: str | None = None
    started: float = field(default_factory=time.time)
    ended: float | None = None

    def change(self, state: JobState, phase: str | None = None, failure_reason: str | None = None) -> None:
        """Change the state and write the file; without a phase, the state's own name is the phase."""
        self.state = state
        self.phase = phase or state.value
        self.failure_reason = failure_reason
        if state.is_final:
            self.ended = time.time()
        self.write()

    def write(self) -> None:
        """Write the file, at once or not at all."""
        write_private(status_file(Path(self.folder)), asdict(self))

    def status(self) -> JobStatus:
        """The record in the form that every backend gives."""
        folder = Path(self.folder)
        return JobStatus(
            name=self.name,
            state=self.state,
            phase=self.phase,
            failure_reason=self.failure_reason,
            checkpoints=str(folder / "checkpoints"),
            output=str(folder / "hosts"),
            seconds=(self.ended or time.time()) - self.started,
            hosts=self.hosts,
        )


def read_record(folder: Path) -> JobRecord | None:
    """The record of the job in `folder`, or None where there is none."""
    try:
        content = json.loads(status_file(folder).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    state, launcher = JobState(content.pop("state")), ProcessId(**content.pop("launcher"))
    return JobRecord(**content, state=state, launcher=launcher)


def status_file(folder: Path) -> Path:
    """The file in a job's folder that holds its record."""
    return folder / "status.json"


def write_private(file: Path, content: Any) -> None:
    """Write JSON that only the user may read: environment values may be secrets."""
    scratch = file.with_name(f"{file.name}.new")
    with contextlib.suppress(FileNotFoundError):
        scratch.unlink()
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=2)
    scratch.replace(file)


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How a host's boot ended: its exit code (negative for a signal) and when it was seen."""

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


def _candidate(end: HostEnd) -> tuple[tuple[int, float], str, HostEnd]:
    try:
        text = end.host.failure.read_text(encoding="utf-8")
        # The boot gives its report the time of the failure itself.
        when = end.host.failure.stat().st_mtime
    except FileNotFoundError:
        if end.exit_code == -9:
            code, host = HOST_OUT_OF_MEMORY.code, end.host.name
            text = f"{code} {host}: the boot was killed by SIGKILL: the usual reason is host memory"
            return (0, end.time), text, end
        text = f"{end.host.name}: the boot ended without a report; {end.host.log} shows what it printed"
        return (_WITHOUT_A_REPORT, end.time), text, end
    mode = CATALOGUE.get(text.split(" ", 1)[0])
    return (mode.weakness if mode else 0, when), text, end
