"""The Slurm backend: each run one sbatch job, its files on a folder that all nodes see.

What a run printed, and how its hosts ended, is read from its folder; whether its job waits, runs or has
ended, Slurm is asked. Once it is certain how a run ended, that is written into its folder, and Slurm is not
asked any more: it forgets ended jobs after minutes (slurm.conf(5), MinJobAge).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import Outage
from launcher.backends.interface import (
    Backend,
    BackendError,
    Cursor,
    JobQuery,
    JobState,
    JobStatus,
    JobSummary,
    LogBatch,
    LogLine,
    OnProgress,
    Polling,
    Transition,
    UnknownJob,
    UnusablePlan,
)
from launcher.backends.local.files import (
    STOP_FILE,
    UnreadableJob,
    ask_to_stop,
    hosts_of,
    is_asked_to_stop,
    who_asked,
)
from launcher.backends.local.job import HostEnd, failure_reason
from launcher.backends.local.logs import Position, read_lines
from launcher.backends.local.records import STATUS_FILE, no_request
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginNode
from launcher.backends.slurm.records import (
    RunEvents,
    SlurmRecord,
    SlurmRuns,
    batch_host,
    claimed_by,
    host_ends,
    nodes_of,
    prefix_on_s3,
    read_events,
)
from launcher.backends.slurm.shared_folder import MirroredFolder, SharedFolder
from launcher.backends.slurm.states import WHY_ENDED, SlurmJob, notice_seconds
from launcher.diagnosis.model import Stop, StopCause

if TYPE_CHECKING:
    from launcher.jobs.load_job import Variables
    from launcher.planning.request_view import Request
    from launcher.planning.training_plan import TrainingPlan


class SlurmBackend(Backend):
    """Runs plans on Slurm. `home` is the folder of the runs on the shared folder; `commands` calls Slurm;
    `variables` are what the values of secrets are taken from, None for the environment's own; `login` is the
    login node, where this machine has neither Slurm nor the shared folder.

    All methods raise LoginSilent where that is not reached.
    """

    name = "Slurm"
    bills = False
    polling = Polling(seconds=3.0, seconds_per_host=0.0, end_reads=1)

    def __init__(
        self,
        home: Path,
        commands: SlurmCommands | None = None,
        variables: Variables | None = None,
        login: LoginNode | None = None,
    ) -> None:
        self._login = login
        self._shared = SharedFolder(home) if login is None else MirroredFolder(home, login)
        self._runs = self._shared.runs
        self._commands = commands or SlurmCommands(login=login)
        self._variables = variables

    @property
    def is_seen(self) -> bool:
        """Whether the shared folder is there, and can be written to from where jobs are submitted."""
        return self._shared.is_seen

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Prepare the run's folder and hand its script to sbatch; return the run's name.

        Raises BackendError where the run cannot be prepared or Slurm refuses it, SlurmSilent where Slurm does
        not answer; nothing is left then. UncertainError where nobody can tell.
        """
        section = plan.slurm
        if section is None:
            raise UnusablePlan
        return self._start(plan, section.model_dump(mode="json"), on_progress)

    def describe(self, job_name: str) -> JobStatus:
        """How the run is.

        Raises UnknownJob where there is none, or one that never reached Slurm, UnreadableJob where its files
        tell nothing, SlurmSilent where Slurm does not answer.
        """
        from launcher.planning.request_view import RequestView

        record = self._look(job_name)
        events = read_events(record.folder)
        try:
            request = RequestView(self._runs.request(job_name))
            checkpoints = prefix_on_s3(request) or self._shared.address(job_name, "checkpoints")
            return replace(
                record.status(checkpoints, self._shared.address(job_name, "hosts")),
                transitions=_transitions(events),
                nodes=nodes_of(record.folder, record.hosts),
                processes_per_host=request.processes_per_host,
                metrics=request.metrics,
                instance_type=request.instance_type,
                request=request,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise no_request(record.folder) from error

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What the hosts and the sbatch script printed since the cursor."""
        # As it was seen last: who follows has just asked, and Slurm is not asked twice.
        record = self._runs.record(job_name)
        lines: list[LogLine] = []
        reached: dict[str, str] = {}
        for host in (batch_host(record.folder), *hosts_of(record.folder, record.hosts)):
            position = Position.parse(cursor.get(host.name))
            found, position = read_lines(host, position, to_the_end=record.state.is_final)
            lines += found
            reached[host.name] = str(position)
        return LogBatch(sorted(lines, key=lambda line: line.time), reached, more=bool(lines))

    def stop(self, job_name: str, who: str | None = None) -> None:
        """Ask the run to stop: a job that waits leaves the queue, one that runs saves what it can first.

        Raises BackendError where the file that asks for it cannot be written, SlurmSilent where Slurm does
        not answer.
        """
        record = self._look(job_name)
        if record.state.is_final:
            return
        try:
            ask_to_stop(record.folder, who)
            self._shared.send(job_name, STOP_FILE)
        except OSError as error:
            raise BackendError(
                f"{record.folder / STOP_FILE}, which asks for the stop, cannot be written: {error.strerror}.",
                f"Stop the job itself: scancel {record.job_id}",
            ) from error
        job_id = str(record.job_id)
        job = self._commands.job(job_id)
        if job is None or job.end is not None:
            return
        if job.state in ("RUNNING", "SUSPENDED", "COMPLETING", "SIGNALING"):
            # The script alone, which has the boots end their ranks: all processes at once would get it else.
            self._commands.cancel(job_id, "--batch", "--signal=TERM")
        else:
            self._commands.cancel(job_id)

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The runs that the query asks for, newest first; those that cannot be read are left out."""
        found = []
        self._shared.look_at_all()
        for name in self.job_names():
            with contextlib.suppress(UnreadableJob, UnknownJob):
                found.append(_summary(self._look(name)))
        return query.select(found)

    def holds(self, job_name: str) -> bool:
        """Whether there is a run of that name, readable or not; a login node is not asked."""
        return self._runs.holds(job_name)

    def job_names(self) -> list[str]:
        """The runs, readable or not, in the order of their names; a login node is not asked."""
        return self._runs.names()

    def request_of(self, job_name: str) -> Request:
        """The request that a run was started from. Raises as `describe`."""
        return self._runs.resumable_request(job_name)

    def resume(self, earlier: str, request: Request, on_progress: OnProgress | None = None) -> str:
        """Run the code of an earlier run again, with its Python, inputs, and a copy of its checkpoints.

        Raises as `submit`, and BackendError where its code can no longer be read.
        """
        # Only those who resume need it, and with it what plans are.
        from launcher.backends.local.start import resumed_plan
        from launcher.jobs.script_inputs import RESERVED_CHANNEL
        from launcher.source.packaging import SOURCE_NAME

        self._shared.look(earlier)
        record = self._runs.record(earlier)
        code = hosts_of(record.folder, 1)[0].root / "input" / "data" / RESERVED_CHANNEL / SOURCE_NAME
        self._shared.bring(earlier, str(code.relative_to(record.folder)))
        with resumed_plan(record.folder, request) as (plan, _):
            return self._start(plan, record.section, on_progress)

    def has_checkpoint(self, job_name: str) -> bool:
        """Whether a run that has ended left anything in its folder of checkpoints, or on S3.

        Raises AwsRefusal where AWS refuses to say.
        """
        from launcher.planning.request_view import RequestView

        request = RequestView(self._runs.request(job_name))
        if prefix_on_s3(request) is not None:
            from launcher.backends.sagemaker.resume import LeftCheckpoint, left_checkpoint

            return left_checkpoint(self._s3(), request) is not LeftCheckpoint.NOTHING
        return self._shared.has_checkpoint(self._runs.folder(job_name).name)

    def failed_nodes(self, job_name: str, host: str | None) -> tuple[str, ...]:
        """The node on which that host of the run was."""
        record = self._runs.record(job_name)
        nodes = nodes_of(record.folder, record.hosts)
        return (nodes[host],) if host in nodes else ()

    def _start(
        self, plan: TrainingPlan, section: Mapping[str, object], on_progress: OnProgress | None
    ) -> str:
        # What starts a run needs the job file's models, what looks at one does not.
        from launcher.backends.slurm.start import start_run
        from launcher.jobs.job_sections import Slurm

        given = Slurm.model_validate(section)
        record = start_run(
            plan,
            given,
            self._shared,
            self._commands,
            login=self._login,
            inputs={name: Path(folder) for name, folder in given.inputs.items()},
            variables=self._variables,
            s3=self._s3,
            on_progress=on_progress,
        )
        return record.name

    def _s3(self) -> Any:
        """A client of S3, made where checkpoints lie there; everything else does without AWS."""
        from launcher.aws.clients import Clients
        from launcher.aws.session import session_region

        return Clients()("s3", session_region())

    def _look(self, job_name: str) -> SlurmRecord:
        """The run's record, with what has become of its job; written once that is final."""
        self._shared.look(job_name)
        record = self._runs.record(job_name)
        if record.state.is_final:
            return record
        job_id = record.job_id or claimed_by(record.folder)
        job = self._commands.job(job_id) if job_id else self._commands.job_named(job_name)
        if job is None and job_id is None:
            raise UnknownJob(
                f"the run {job_name} was prepared in {self._shared.address(job_name, '')}, and never reached "
                "Slurm.",
                "Launch its job file again.",
            )
        goes_on = job is not None and job.end is None
        if not goes_on:
            # What its hosts wrote until they ended.
            self._shared.look(job_name)
        events = read_events(record.folder)
        seen = replace(record, job_id=job.job_id if job else job_id, started=_first_start(job, events))
        if job is not None and goes_on:
            return _going_on(seen, job)
        ended = _ended(seen, job, events)
        with contextlib.suppress(OSError, BackendError, Outage):
            ended.write()
            self._shared.send(job_name, STATUS_FILE)
        return ended


def _going_on(record: SlurmRecord, job: SlurmJob) -> SlurmRecord:
    stop = _asked(record)
    if stop is not None:
        stopping = JobState.STOPPING
        return replace(record, state=stopping, phase=stopping.value, stop=stop, explanation=job.explanation)
    return replace(record, state=JobState.IN_PROGRESS, phase=job.phase, explanation=job.explanation)


def _ended(record: SlurmRecord, job: SlurmJob | None, events: RunEvents) -> SlurmRecord:
    """How a run ended: by who asked for it, by its hosts, and by what Slurm says of its job."""
    ends = host_ends(record.folder, record.hosts)
    stop = _asked(record) or _stopped_by_slurm(record, job, events)
    known = replace(
        record,
        ended=(job.ended if job else None) or events.ended or time.time(),
        explanation=job.explanation if job else f"Slurm has forgotten its job {record.job_id}",
    )
    failed = [end for end in ends if end.exit_code != 0]
    if stop is not None and not _failed_by_itself(stop, ends):
        phase = "MaxRuntimeExceeded" if stop.cause is StopCause.MAX_RUNTIME else JobState.STOPPED.value
        return replace(known, state=JobState.STOPPED, phase=phase, stop=stop)
    complete = job.end is JobState.COMPLETED if job else events.exit_code == 0
    if complete and not failed:
        return replace(known, state=JobState.COMPLETED, phase=JobState.COMPLETED.value)
    reason = failure_reason(failed) if failed else _reason_without_report(known, job, events)
    return replace(known, state=JobState.FAILED, phase=JobState.FAILED.value, failure_reason=reason)


def _asked(record: SlurmRecord) -> Stop | None:
    if not is_asked_to_stop(record.folder):
        return None
    at = None
    with contextlib.suppress(OSError):
        at = (record.folder / STOP_FILE).stat().st_mtime
    return Stop(StopCause.ASKED, who_asked(record.folder), at)


def _stopped_by_slurm(record: SlurmRecord, job: SlurmJob | None, events: RunEvents) -> Stop | None:
    """What ended the job from outside, by Slurm's word or by the signal that the script got."""
    limit = _limit(record)
    cancelled = job is not None and job.end is JobState.STOPPED and job.state != "TIMEOUT"
    if events.told is not None and events.starts and limit is not None and not cancelled:
        # At least half of the limit: of a short one the notice may come at any time.
        slack = min(_SLACK_SECONDS, limit / 2)
        if events.told - events.starts[-1] > limit - notice_seconds(limit) - slack:
            return Stop(StopCause.MAX_RUNTIME, at=events.told, limit=limit)
    if job is not None and job.state == "TIMEOUT":
        return Stop(StopCause.MAX_RUNTIME, at=job.ended, limit=limit)
    if job is not None and job.end is JobState.STOPPED:
        why = WHY_ENDED.get(job.state)
        return Stop(StopCause.ASKED, f"Slurm: {why}" if why else "scancel, or Slurm", job.ended)
    if events.told is not None:
        return Stop(StopCause.ASKED, "Slurm, by SIGTERM to the job's script", events.told)
    return None


_SLACK_SECONDS = 90.0
"""The notice may come a minute earlier than asked for (sbatch(1), --signal), and Slurm looks every half."""


def _limit(record: SlurmRecord) -> int | None:
    """For how many seconds the run may run by its request; None where that cannot be read."""
    from launcher.planning.request_view import RequestView

    with contextlib.suppress(BackendError, AttributeError, KeyError, TypeError, ValueError):
        request = SlurmRuns(record.folder.parent).request(record.name)
        return RequestView(request).max_runtime_seconds
    return None


def _failed_by_itself(stop: Stop, ends: list[HostEnd]) -> bool:
    """Whether a host had failed before the stop, which then is the consequence."""
    return stop.at is not None and any(
        end.exit_code not in (0, 143, 130) and end.time < stop.at and end.host.failure.exists()
        for end in ends
    )


def _reason_without_report(record: SlurmRecord, job: SlurmJob | None, events: RunEvents) -> str:
    """The reason of a failure of which no host has left a report."""
    log = batch_host(record.folder).log
    if job is None and events.ended is None:
        return (
            f"InternalServerError: Slurm does not know the job {record.job_id} any more, and it has noted no "
            f"end in {record.folder}: its nodes may have gone down; {log} shows what Slurm said of it"
        )
    why = WHY_ENDED.get(job.state) if job else None
    if why is not None:
        return f"InternalServerError: {why}; {log} shows what Slurm said of it"
    code = events.exit_code if events.exit_code is not None else 1
    return f"AlgorithmError: no host has left a report; {log} shows what Slurm said, exit code: {code}"


def _first_start(job: SlurmJob | None, events: RunEvents) -> float | None:
    if events.starts:
        return events.starts[0]
    return job.started if job is not None and job.state != "PENDING" else None


def _transitions(events: RunEvents) -> tuple[Transition, ...]:
    """When the job started, each time: SageMaker calls a further time Restarting."""
    phases = ["Training", *["Restarting"] * (len(events.starts) - 1)]
    ends = [*events.starts[1:], events.ended]
    return tuple(
        Transition(phase, started, ended)
        for phase, started, ended in zip(phases, events.starts, ends, strict=False)
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _summary(record: SlurmRecord) -> JobSummary:
    ended = _time(record.ended) if record.ended else None
    return JobSummary(record.name, record.state, record.phase, _time(record.submitted), ended)
