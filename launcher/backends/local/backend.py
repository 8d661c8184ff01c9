"""The local backend: the same job on this machine, each host a process tree on loopback.

A job lives in `<home>/<job name>/`: `request.json`, `status.json`, `checkpoints/` in place of the prefix
on S3, and `hosts/<host>/ml/` in place of each container's /opt/ml, with `log` beside it.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from launcher.backends.interface import (
    Backend,
    BackendError,
    Cursor,
    JobQuery,
    JobState,
    JobStatus,
    JobSummary,
    LogBatch,
    OnProgress,
    Polling,
    UnknownJob,
    UnusablePlan,
)
from launcher.backends.local.hosts import hosts_of
from launcher.backends.local.job import STOP_FILE, Grace, LocalJob
from launcher.backends.local.logs import Position, read_lines
from launcher.backends.local.processes import ProcessId, boots_among, kill_all, processes_of
from launcher.backends.local.status import JobRecord, read_record, write_private

if TYPE_CHECKING:
    from launcher.planning.training_plan import Request, TrainingPlan

_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


class LocalBackend(Backend):
    """Runs plans on this machine.

    `home` holds the jobs; `inputs` gives a folder of this machine for each of the job's channels. Jobs
    end with the launcher: close the backend, or use it as a context manager, to end them in order; if
    the launcher is killed they stop by themselves.
    """

    name = "local"
    polling = Polling(seconds=0.2, seconds_per_host=0.0, end_reads=1)
    runs_here = True

    def __init__(
        self, home: Path, inputs: Mapping[str, Path] | None = None, grace: Grace | None = None
    ) -> None:
        self._home = home.absolute()
        self._inputs = dict(inputs or {})
        self._grace = grace or Grace()
        self._running: dict[str, LocalJob] = {}

    def __enter__(self) -> LocalBackend:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Start a plan's hosts and return the job's name.

        Raises BackendError where this machine cannot run it: a strategy of the images' toolkit, a
        channel without a folder, an unknown job to resume from, a name that is taken.
        """
        return self._start(plan, self._inputs)

    def describe(self, job_name: str) -> JobStatus:
        """How the job is, also one of another launcher's. Raises UnknownJob where there is none."""
        # Listing and stopping jobs reads no requests.
        from launcher.planning.request_view import RequestView

        request = RequestView(self.request_of(job_name))
        return replace(
            self._living_record(job_name).status(),
            processes_per_host=request.processes_per_host,
            metrics=request.metrics,
        )

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What the hosts printed since the cursor; the lines' times are when they were first seen."""
        # The state first: what is written until it is final will still be read.
        final = self.describe(job_name).state.is_final
        record = self._record(job_name)
        lines, reached = [], {}
        for host in hosts_of(Path(record.folder), record.hosts):
            position = Position.parse(cursor.get(host.name))
            if host.log.exists():
                found, position = read_lines(host, position, to_the_end=final)
                lines += found
            reached[host.name] = str(position)
        return LogBatch(sorted(lines, key=lambda line: line.time), reached, more=bool(lines))

    def stop(self, job_name: str) -> None:
        """Ask whoever runs the job to stop it; nothing happens to one that has ended."""
        record = self._record(job_name)
        if not record.state.is_final:
            (Path(record.folder) / STOP_FILE).touch()

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The jobs below the home folder that the query asks for, newest first."""
        found = [_summary(self._living_record(name)) for name in self.job_names()]
        chosen = [
            job
            for job in found
            if (query.name is None or query.name in job.name)
            and query.state in (None, job.state)
            and (query.since is None or job.created > query.since)
        ]
        return sorted(chosen, key=lambda job: job.created, reverse=True)[: query.limit]

    def request_of(self, job_name: str) -> Request:
        """The request that a job was started from. Raises UnknownJob where there is none."""
        folder = Path(self._record(job_name).folder)
        request: Request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
        return request

    def resume(self, earlier: str, request: Request, on_progress: OnProgress | None = None) -> str:
        """Run the code of an earlier job again on its inputs, from a copy of its checkpoints.

        Raises BackendError where its code can no longer be read.
        """
        # Only those who resume need it, and with it what plans are.
        from launcher.backends.local.resume import resumed_plan

        with resumed_plan(self._folder(earlier), request) as (plan, inputs):
            return self._start(plan, inputs)

    def job_names(self) -> list[str]:
        """The jobs below the home folder, in the order of their names."""
        return sorted(folder.parent.name for folder in self._home.glob("*/status.json"))

    def close(self) -> None:
        """Stop this backend's jobs and wait until nothing of them is left, a bounded time."""
        for job in self._running.values():
            if job.is_alive():
                self.stop(job.name)
        # kill_all and the wait for the boots come after the grace, at most ten seconds each.
        deadline = time.monotonic() + self._grace.stop + self._grace.report + 2 * 10.0
        for job in self._running.values():
            job.join(timeout=max(0.0, deadline - time.monotonic()))
            if job.is_alive():
                kill_all(job.folder)
        self._running.clear()

    def _start(self, plan: TrainingPlan, inputs: Mapping[str, Path]) -> str:
        # What lays out a job needs the job file's models, what looks at one does not.
        from launcher.backends.local.layout import (
            boot_command,
            check_inputs,
            choose_rendezvous,
            debugging_here,
            host_environment,
            lay_out,
            share_devices,
            share_threads,
            visible_devices,
        )

        request, package = plan.view, plan.package
        if plan.refused or request is None or package is None:
            raise UnusablePlan
        if plan.operation != "CreateTrainingJob":
            raise BackendError(
                "a tuning job is SageMaker's own: nothing here chooses the next hyperparameters.",
                "Run one of its jobs: a job file without `tuning`, with values in `hyperparameters`.",
            )
        name = str(request.name)
        folder = self._folder(name)
        hosts = hosts_of(folder, request.hosts or 1)
        commands = {host: boot_command(request, host) for host in hosts}
        check_inputs(request, inputs)
        earlier = self._resumed(plan)
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise BackendError(f"there is a local job {name} already.", "Use another name.") from None
        record = JobRecord(name, str(folder), ProcessId.of_this_process(), len(hosts))
        job = LocalJob(record, hosts, max_seconds=request.max_runtime_seconds, grace=self._grace)
        try:
            write_private(folder / "request.json", plan.request)
            if earlier is not None:
                shutil.copytree(earlier, folder / "checkpoints")
            lay_out(folder, request, package, inputs)
            record.write()
            processes = plan.job.get("distribution", {}).get("processes_per_host") or 1
            devices = share_devices(visible_devices(), len(hosts), processes)
            rendezvous = choose_rendezvous(request)
            given = plan.job.get("environment", {})
            threads = share_threads(len(hosts) * processes, given)
            environments = {
                host: host_environment(
                    request, host, rendezvous, seen, {**threads, **debugging_here(request, seen, given)}
                )
                for host, seen in zip(hosts, devices, strict=True)
            }
            job.launch(commands, environments)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._running[name] = job
        return name

    def _living_record(self, job_name: str) -> JobRecord:
        record = self._record(job_name)
        if record.state.is_final or record.launcher.is_alive:
            return record
        # Its state may have become final between reading it and looking at its launcher.
        record = self._record(job_name)
        folder = Path(record.folder)
        if not record.state.is_final:
            if boots_among(processes_of(folder)):
                record.state, record.phase = JobState.STOPPING, JobState.STOPPING.value
            else:
                kill_all(folder)
                record.change(
                    JobState.FAILED,
                    failure_reason=f"ClientError: the launcher that ran this job (process "
                    f"{record.launcher.pid}) ended before it, and the job with it",
                )
        return record

    def _resumed(self, plan: TrainingPlan) -> Path | None:
        """The checkpoints of the job to resume from, or None for a job that starts from nothing."""
        name = (plan.job.get("checkpoint") or {}).get("resume_from")
        if not name:
            return None
        checkpoints: Path = self._home / name / "checkpoints"
        if not _JOB_NAME.fullmatch(name) or not checkpoints.is_dir():
            raise BackendError(
                f"there is no local job {name} to resume from; there are: {self._known()}.",
                "Give the name of a job that ran here in `checkpoint.resume_from`.",
            )
        return checkpoints

    def _record(self, job_name: str) -> JobRecord:
        # What is not a name could be a path to somewhere else.
        record = read_record(self._home / job_name) if _JOB_NAME.fullmatch(job_name) else None
        if record is None:
            raise UnknownJob(
                f"there is no local job {job_name} below {self._home}; there are: {self._known()}.",
                "Correct the name, or go to the folder in which it was launched.",
            )
        return record

    def _folder(self, job_name: str) -> Path:
        if not _JOB_NAME.fullmatch(job_name):
            raise BackendError(
                f"{job_name!r} is not the name of a training job.",
                "Names have letters, digits and single hyphens, at most 63.",
            )
        return self._home / job_name

    def _known(self) -> str:
        return ", ".join(self.job_names()) or "none"


def _summary(record: JobRecord) -> JobSummary:
    started = datetime.fromtimestamp(record.started, UTC)
    ended = datetime.fromtimestamp(record.ended, UTC) if record.ended else None
    return JobSummary(record.name, record.state, record.phase, started, ended)
