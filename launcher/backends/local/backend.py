"""The local backend: the same job on this machine, each host a process tree on loopback.

A job lives in `<home>/<job name>/`: `request.json`, `status.json`, `checkpoints/` in place of the prefix
on S3, and `hosts/<host>/ml/` in place of each container's /opt/ml, with `log` beside it. Of the jobs that
this launcher runs, what it has in memory counts; those files are for other launchers.
"""

from __future__ import annotations

import contextlib
import sys
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
    JobStatus,
    JobSummary,
    LogBatch,
    LogLine,
    OnProgress,
    Polling,
    UnknownJob,
)
from launcher.backends.local.files import STOP_FILE, UnreadableJob, ask_to_stop, hosts_of
from launcher.backends.local.job import Grace, LocalJob
from launcher.backends.local.logs import Position, read_lines
from launcher.backends.local.processes import ProcessId, kill_all
from launcher.backends.local.records import JobRecord, JobStore, no_request

if TYPE_CHECKING:
    from launcher.jobs.load_job import Variables
    from launcher.planning.request_view import Request
    from launcher.planning.training_plan import TrainingPlan


_TROUBLE = "launcher"
"""In a cursor: whether the launcher's own trouble was told, as no host has that name."""


class LocalBackend(Backend):
    """Runs plans on this machine.

    `home` holds the jobs; `inputs` gives a folder of this machine for each of the job's channels; `python`
    runs the boots and the ranks, by default the launcher's own, or that of the job that is resumed.
    `variables` are what the values of its secrets are taken from, None for the environment's own. Jobs end
    with the launcher: close the backend, or use it as a context manager, to end them in order; if
    the launcher is killed they stop by themselves.
    """

    name = "local"
    polling = Polling(seconds=0.2, seconds_per_host=0.0, end_reads=1)
    bills = False
    runs_here = True

    def __init__(
        self,
        home: Path,
        inputs: Mapping[str, Path] | None = None,
        grace: Grace | None = None,
        python: Path | None = None,
        variables: Variables | None = None,
    ) -> None:
        self._store = JobStore(home)
        self._python = python
        self._environments = home.absolute().parent / "environments"
        self._inputs = dict(inputs or {})
        self._grace = grace or Grace()
        self._variables = variables
        self._mine: dict[str, LocalJob] = {}
        self._requests: dict[str, Request] = {}

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
        channel without a folder, a secret that is not set, an unknown job to resume from, a name that is
        taken.
        """
        return self._start(plan, self._inputs, self._python or Path(sys.executable), on_progress)

    def describe(self, job_name: str) -> JobStatus:
        """How the job is, also one of another launcher's.

        Raises UnknownJob where there is none, UnreadableJob where its files tell nothing.
        """
        # Listing and stopping jobs reads no requests.
        from launcher.planning.request_view import RequestView

        status = self._record(job_name).status()
        mine = self._mine.get(job_name)
        request = RequestView(self.request_of(job_name))
        try:
            return replace(
                status,
                explanation=mine.trouble if mine else None,
                processes_per_host=request.processes_per_host,
                metrics=request.metrics,
                instance_type=request.instance_type,
                request=request,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise no_request(self._store.folder(job_name)) from error

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What the hosts printed since the cursor; the lines' times are when they were first seen."""
        # The state first: what is written until it is final will still be read.
        final = self.describe(job_name).state.is_final
        record, mine = self._record(job_name), self._mine.get(job_name)
        hosts = hosts_of(record.folder, record.hosts)
        lines: list[LogLine] = []
        reached = {_TROUBLE: told} if (told := cursor.get(_TROUBLE)) else {}
        if mine is not None and mine.trouble and not told:
            lines.append(LogLine(time.time(), hosts[0].name, f"slipway: {mine.trouble}"))
            reached[_TROUBLE] = "told"
        for host in hosts:
            position = Position.parse(cursor.get(host.name))
            found, position = read_lines(host, position, to_the_end=final)
            lines += found
            reached[host.name] = str(position)
        return LogBatch(sorted(lines, key=lambda line: line.time), reached, more=bool(lines))

    def stop(self, job_name: str, who: str | None = None) -> None:
        """Ask whoever runs the job to stop it; nothing happens to one that has ended.

        Raises BackendError where another launcher runs it and the file that asks it cannot be written.
        """
        if job_name in self._mine:
            self._mine[job_name].stop(who)
            return
        record = self._record(job_name)
        if record.state.is_final:
            return
        try:
            ask_to_stop(record.folder, who)
        except OSError as error:
            raise BackendError(
                f"{record.folder / STOP_FILE}, which asks for the stop, cannot be written: {error.strerror}.",
                f"Press Ctrl-C where the job runs, or: kill -INT {record.launcher.pid}",
            ) from error

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The jobs below the home folder that the query asks for, newest first.

        Those that cannot be read are left out; `unreadable` has them.
        """
        found = []
        for name in self.job_names():
            with contextlib.suppress(UnreadableJob, UnknownJob):
                found.append(_summary(self._record(name)))
        return query.select(found)

    def unreadable(self) -> list[UnreadableJob]:
        """What is wrong with those jobs below the home folder that cannot be read, in their names' order."""
        return self._store.unreadable()

    def holds(self, job_name: str) -> bool:
        """Whether there is a job of that name here, readable or not."""
        return self._store.holds(job_name)

    def job_names(self) -> list[str]:
        """The jobs below the home folder, readable or not, in the order of their names."""
        return self._store.names()

    def request_of(self, job_name: str) -> Request:
        """The request that a job was started from. Raises as `describe`."""
        mine = self._requests.get(job_name)
        if mine is not None:
            return mine
        return self._store.resumable_request(job_name)

    def resume(self, earlier: str, request: Request, on_progress: OnProgress | None = None) -> str:
        """Run the code of an earlier job again, with its Python, inputs and a copy of its checkpoints.

        Raises BackendError where its code can no longer be read, or its Python is gone.
        """
        # Only those who resume need it, and with it what plans are.
        from launcher.backends.local.start import resumed_plan

        # Runs of older launchers do not say with which Python: it was the launcher's.
        python = self._python or self._record(earlier).python or Path(sys.executable)
        with resumed_plan(self._store.folder(earlier), request) as (plan, inputs):
            return self._start(plan, inputs, python, on_progress)

    def close(self) -> None:
        """Stop this backend's jobs and wait until nothing of them is left, a bounded time."""
        for job in self._mine.values():
            if job.is_alive():
                job.stop(f"its launcher, which ended (process {ProcessId.of_this_process().pid})")
        # kill_all and the wait for the boots come after the grace, at most ten seconds each.
        deadline = time.monotonic() + self._grace.stop + self._grace.report + 2 * 10.0
        for job in self._mine.values():
            job.join(timeout=max(0.0, deadline - time.monotonic()))
            if job.is_alive():
                kill_all(job.folder)

    def _start(
        self,
        plan: TrainingPlan,
        inputs: Mapping[str, Path],
        python: Path,
        on_progress: OnProgress | None,
    ) -> str:
        # What starts a job needs the job file's models, what looks at one does not.
        from launcher.backends.local.start import start_job

        job = start_job(
            plan,
            self._store,
            inputs=inputs,
            python=python,
            environments=self._environments,
            variables=self._variables,
            grace=self._grace,
            on_progress=on_progress,
        )
        name = job.record.name
        self._mine[name], self._requests[name] = job, dict(plan.request or {})
        return name

    def _record(self, job_name: str) -> JobRecord:
        mine = self._mine.get(job_name)
        return self._store.living_record(job_name) if mine is None else mine.record


def _summary(record: JobRecord) -> JobSummary:
    started = datetime.fromtimestamp(record.started, UTC)
    ended = datetime.fromtimestamp(record.ended, UTC) if record.ended else None
    return JobSummary(record.name, record.state, record.phase, started, ended)
