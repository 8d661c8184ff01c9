"""What is known of runs on Slurm by their folders on the shared folder.

Such a folder has `status.json`, written by the launcher (what was submitted, and once it is certain how it
ended), `events`, written by the sbatch script (when the job started, was told to end, and ended), and for
each host its log, the node it was on, and how its boot ended. All of it can be read wherever the shared
folder is, and long after the controller has forgotten the job.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.backends.interface import JobState, JobStatus
from launcher.backends.local.files import Host, UnreadableJob, hosts_of, read_state, write_state
from launcher.backends.local.job import HostEnd
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.records import (
    MAX_HOSTS,
    RunFolder,
    is_stop,
    is_time,
    is_whole,
    status_file,
    stop_in,
)
from launcher.diagnosis.model import Stop
from launcher.frozen import frozen
from launcher.text.regular_files import read_regular

if TYPE_CHECKING:
    # Looking at a run needs nothing of what plans one.
    from launcher.planning.request_view import RequestView

CLAIM_NAME, EVENTS_NAME = "job", "events"
"""In a run's folder: the id of the job that the run belongs to; when it started and ended."""

_MOST_BYTES = 1024 * 1024


@frozen
class SlurmRecord:
    """A run at one moment, as its status file holds it. Times are seconds since the epoch.

    `launcher` is the process that submits it, on `machine`; `job_id` is Slurm's id of its job, None as long
    as the launcher does not know it. `section` is what the job file says of Slurm.
    """

    folder: Path
    hosts: int
    section: Mapping[str, Any]
    launcher: ProcessId
    machine: str = field(default_factory=socket.gethostname)
    submitted: float = field(default_factory=time.time)
    job_id: str | None = None
    state: JobState = JobState.IN_PROGRESS
    phase: str = "Pending"
    failure_reason: str | None = None
    explanation: str | None = None
    started: float | None = None
    ended: float | None = None
    stop: Stop | None = None

    @property
    def name(self) -> str:
        """The run's name, which is that of its folder and of its job."""
        return self.folder.name

    @property
    def is_being_submitted(self) -> bool:
        """Whether the launcher that prepared it may still hand it to Slurm, as far as can be seen here."""
        if self.machine != socket.gethostname():
            return time.time() - self.submitted < _SUBMITTING_SECONDS
        return self.launcher.is_alive

    def write(self) -> None:
        """Write the file. Raises OSError, such as on a full disk."""
        content = {"name": self.name, **asdict(self)}
        del content["folder"]
        write_state(status_file(self.folder), content)

    def status(self, checkpoints: str, output: str) -> JobStatus:
        """The record in the form that every backend gives; `checkpoints` and `output` are where those lie."""
        begun = self.started or self.submitted
        return JobStatus(
            name=self.name,
            state=self.state,
            phase=self.phase,
            failure_reason=self.failure_reason,
            checkpoints=checkpoints,
            output=output,
            seconds=(self.ended or time.time()) - begun,
            explanation=self.explanation,
            hosts=self.hosts,
            stop=self.stop,
        )


_SUBMITTING_SECONDS = 300.0
"""For so long a launcher on another machine, which cannot be looked at from here, may be at it."""


class SlurmRuns(RunFolder):
    """The runs on a shared folder."""

    kind: ClassVar[str] = "run on Slurm"

    def record(self, job_name: str) -> SlurmRecord:
        """What a run's status file says. Raises UnknownJob where there is none, or UnreadableJob."""
        if not self.holds(job_name):
            raise self.unknown(job_name)
        try:
            return _read_record(self.home / job_name)
        except FileNotFoundError:
            raise self.unknown(job_name) from None


def _read_record(folder: Path) -> SlurmRecord:
    file = status_file(folder)
    content = read_state(file)
    launcher, section = content.get("launcher"), content.get("section")
    texts = ("job_id", "failure_reason", "explanation")
    good = (
        isinstance(launcher, dict)
        and isinstance(section, dict)
        and is_whole(launcher.get("pid"))
        and is_time(launcher.get("started"))
        and isinstance(content.get("machine"), str)
        and is_whole(content.get("hosts"))
        and 0 < content["hosts"] <= MAX_HOSTS
        and content.get("state") in set(JobState)
        and isinstance(content.get("phase"), str)
        and is_time(content.get("submitted"))
        and all(isinstance(content.get(name), str | None) for name in texts)
        and all(content.get(name) is None or is_time(content[name]) for name in ("started", "ended"))
        and (content.get("stop") is None or is_stop(content["stop"]))
    )
    if not good:
        raise UnreadableJob(file, "it is not what a launcher writes of a run on Slurm")
    known: dict[str, Any] = {
        name: content.get(name) for name in SlurmRecord.__dataclass_fields__ if name != "folder"
    }
    known["launcher"] = ProcessId(content["launcher"]["pid"], content["launcher"]["started"])
    known["state"], known["stop"] = JobState(content["state"]), stop_in(content.get("stop"))
    return SlurmRecord(folder, **known)


@frozen
class RunEvents:
    """What the sbatch script has noted: when the job started, each time; when it was told to end since its
    last start, and ended; its exit code. None where that has not happened."""

    starts: tuple[float, ...] = ()
    told: float | None = None
    ended: float | None = None
    exit_code: int | None = None


def read_events(folder: Path) -> RunEvents:
    """What the script has noted so far; what a full disk has cut is left out, and the end of an earlier start
    that is noted after the next one has begun."""
    events, last = RunEvents(), ""
    with contextlib.suppress(OSError):
        for line in read_regular(folder / EVENTS_NAME, _MOST_BYTES).decode("utf-8", "replace").splitlines():
            what, when, start, value = (line.split() + [""] * 4)[:4]
            if not when.isdecimal():
                continue
            at = float(when)
            if what == "start":
                events, last = RunEvents((*events.starts, at)), start
            elif start != last:
                continue
            elif what == "term":
                events = replace(events, told=at)
            elif what == "end" and value.isdecimal():
                events = replace(events, ended=at, exit_code=int(value))
    return events


def claimed_by(folder: Path) -> str | None:
    """The id of the job that has started the run; None before that."""
    return _text(folder / CLAIM_NAME)


def nodes_of(folder: Path, hosts: int) -> dict[str, str]:
    """The nodes on which the hosts of the run were last, by the hosts' names; of those that started."""
    found = {host.name: _text(host.folder / "node") for host in hosts_of(folder, hosts)}
    return {name: node for name, node in found.items() if node}


def batch_host(folder: Path) -> Host:
    """The sbatch script's own output, as a host's: what Slurm says of the job is in it."""
    return Host("slurm", folder / "slurm")


def host_ends(folder: Path, hosts: int) -> list[HostEnd]:
    """How the boots of those hosts ended that have noted it."""
    ends = []
    for host in hosts_of(folder, hosts):
        code, _, when = (_text(host.folder / "end") or "").partition(" ")
        if code.isdecimal() and when.isdecimal():
            # As the shell gives it: 137 for a boot that was killed.
            ends.append(HostEnd(host, -9 if code == "137" else int(code), float(when)))
    return ends


def prefix_on_s3(request: RequestView) -> str | None:
    """The run's own prefix on S3, to which its hosts copy their checkpoints; None where these stay on the
    shared folder."""
    from launcher.planning.request_view import CHECKPOINT_SYNC_OPTION
    from launcher.planning.training_plan import PLACEHOLDER_BUCKET

    prefix = request.checkpoints.moved_by_script
    if CHECKPOINT_SYNC_OPTION not in request.boot_options or prefix is None:
        return None
    # Where the job file names no prefix, the plan has none of its own.
    return None if prefix.startswith(f"s3://{PLACEHOLDER_BUCKET}/") else prefix


def _text(file: Path) -> str | None:
    try:
        return read_regular(file, 200).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
