"""The controller's step: when an attempt of a managed run has ended, what it was, what is decided, what
follows.

It acts on attempts that have ended alone, and asks the service itself whether one has: an event is only a
hint, which may come twice, late, or before another. What it does is done once however often it is told to,
and by one at a time: the run is held for the time of a step, what was decided is written before it is done,
and the name of the next attempt follows from the run. What it cannot see or does not understand is never a
reason for another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.aws.errors import CredentialsExpired, Outage
from launcher.backends.interface import FoundJob, JobState, JobStatus, LogLine
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.backends.sagemaker.resume import CopyUnfinished, LeftCheckpoint
from launcher.diagnosis.model import Verdict
from launcher.failure_modes.model import AwsRefusal, Refusal, Retry
from launcher.frozen import frozen
from launcher.planning.job_cost import spent_usd
from launcher.planning.next_attempt import (
    Attempt,
    GiveUp,
    TryAgain,
    after_failure,
    budget_after,
    build_attempt,
    hold_to_budget,
    managed_attempt,
    name_attempt,
)
from launcher.planning.request_view import Request, RequestView
from launcher.report.page import page_of
from launcher.report.run_report import RunReport
from launcher.session.managed.notices import RunNotice, notice_of_end, notice_of_failed_start, notice_of_stop
from launcher.session.managed.records import AttemptRecord, ManagedPlan, Records, StartClaim
from launcher.session.runs.estimate_end import goals_of
from launcher.session.runs.read_job_lines import ProgressReader
from launcher.session.runs.report_runs import report_of_job

WAKE_SECONDS = 60.0
"""Until a step that could not be finished is taken up again; one-time schedules know whole minutes."""

_RESERVE_SECONDS = 180.0
"""Of a function's time, kept back from a copy: for the objects under way, the job, and the notice."""

_LEASE_MARGIN_SECONDS = 60.0
"""A lease outlasts its function by so much, as clocks differ."""

CONTROLLER = "the controller"


@frozen
class Controller:
    """What the step works with.

    `records` gives the records of a run by its first attempt's name, `bucket` is where they are. `wake` has
    the step for an attempt of a run taken up again at a time, `notify` tells people. `now` is the time in
    seconds since the epoch, `time_left` the seconds that this step may still take; `holder` tells this step
    from all others.
    """

    backend: SageMakerBackend
    bucket: str
    records: Callable[[str], Records]
    wake: Callable[[str, int, float], None]
    notify: Callable[[RunNotice], None]
    now: Callable[[], float]
    time_left: Callable[[], float]
    holder: str

    def job_ended(self, name: str) -> None:
        """A training job has ended, of a managed run or not. Raises as `advance`."""
        found = managed_attempt(self.backend.describe(name).request or RequestView({}))
        if found is not None and found.bucket == self.bucket:
            self.advance(found.first, found.number)

    def advance(self, first: str, number: int) -> None:
        """Do what is to be done after an attempt of a run, as far as it is not done.

        Raises Refusal where that is not possible now: the same call later goes on.
        """
        records, now = self.records(first), self.now()
        until = now + self.time_left() + _LEASE_MARGIN_SECONDS
        with records.held(self.holder, now, until) as is_held:
            if not is_held:
                self.wake(first, number, now + WAKE_SECONDS)
                return
            self._advance(records, number)

    def _advance(self, records: Records, number: int) -> None:
        plan = records.plan()
        if plan is None:
            raise Refusal(
                f"{records.first} says that it is of a managed run, and {records.uri('plan.json')} is not "
                "there.",
                "Nothing follows this job. Let nobody delete records of runs that are under way.",
            )
        status = self.backend.describe(name_attempt(plan.first, number))
        if not status.state.is_final:
            # Whoever calls was told that it has ended: silence now would lose the run.
            raise Outage(
                f"{status.name} is said to have ended, and SageMaker still describes it as {status.phase}.",
                "Another try finds its end.",
            )
        record = records.attempt(number)
        if record is None:
            record = self._judge(plan, records, number, status)
        self._tell_once(records, f"attempt-{number}", lambda: notice_of_end(plan, record, records))
        if record.following is not None:
            self._start_next(plan, records, record, record.following)

    def _judge(self, plan: ManagedPlan, records: Records, number: int, status: JobStatus) -> AttemptRecord:
        """Read why the attempt ended, decide, and write both down with the page of the run."""
        earlier = [each.attempt() for each in records.attempts()][: number - 1]
        try:
            report, step = self._read(status)
        except (Outage, CredentialsExpired):
            raise
        except AwsRefusal as refusal:
            record = _unread(plan, number, status, self.now(), refusal)
        else:
            records.write_page(number, page_of(report))
            record = _record(plan, number, status, self.now(), report, step, earlier)
        return records.write_attempt(record)

    def _read(self, status: JobStatus) -> tuple[RunReport, float | None]:
        """What the job's lines tell, and the furthest step."""
        reader = ProgressReader(status.metrics, status.processes_per_host, goals_of(status.request))
        furthest: float | None = None

        def read(lines: Sequence[LogLine]) -> None:
            nonlocal furthest
            progress = reader.read(lines)
            step = None if progress is None else progress.step
            if step is not None:
                furthest = step if furthest is None else max(furthest, step)

        report = report_of_job(FoundJob(self.backend, status), seen=read, without_lines=False)
        return report, furthest

    def _start_next(
        self, plan: ManagedPlan, records: Records, ended: AttemptRecord, decision: TryAgain
    ) -> None:
        number = ended.number + 1
        if self.now() < ended.not_before:
            self.wake(plan.first, ended.number, ended.not_before)
            return
        claim = records.claim_start(StartClaim(number, CONTROLLER, self.now()))
        if claim.stops:
            self._tell_once(records, f"start-{number}", lambda: notice_of_stop(plan, claim))
            return
        name = name_attempt(plan.first, number)
        if self.backend.state_of(name, "CreateTrainingJob") is None:
            try:
                request = self._prepare(plan, records, ended, decision)
                stop = _stop_after(records, number)
                if stop is not None:
                    self._leave_out(plan, records, replace(stop, number=number), decision)
                    return
                self.backend.create(request, plan.secret.encode())
            except CopyUnfinished:
                self.wake(plan.first, ended.number, self.now() + WAKE_SECONDS)
                return
            except Outage:
                raise
            except Refusal as refusal:
                notice = notice_of_failed_start(plan, number, refusal)
                self._tell_once(records, f"start-{number}", lambda: notice)
                raise
        if _stop_after(records, number) is not None:
            # Whoever stopped the run may have looked for this job a moment before it was there.
            self.backend.stop(name)

    def _prepare(
        self, plan: ManagedPlan, records: Records, ended: AttemptRecord, decision: TryAgain
    ) -> Request:
        """The request of the next attempt, with all that it speaks of in its place."""
        attempts = [each.attempt() for each in records.attempts()][: ended.number]
        base = plan.request_on(decision.instance_type)
        if attempts[-1].retry is Retry.OTHER_HOSTS and RequestView(base).keep_alive_seconds:
            self.backend.release_hosts(ended.name)
        left = self.backend.left_checkpoint(ended.name)
        place = self.backend.describe(ended.name).checkpoints if left is LeftCheckpoint.WHOLE else None
        request = build_attempt(
            base, attempts, decision, resumes=left is not LeftCheckpoint.NOTHING, prefix=place
        )
        if left is LeftCheckpoint.TO_COPY:
            self.backend.copy_checkpoint(
                ended.name, request, time_left=lambda: self.time_left() - _RESERVE_SECONDS
            )
        return request

    def _leave_out(self, plan: ManagedPlan, records: Records, stop: StartClaim, decision: TryAgain) -> None:
        """Note of an attempt that was about to start that the run was stopped first, and tell."""
        records.write_attempt(
            AttemptRecord(
                number=stop.number,
                name=name_attempt(plan.first, stop.number),
                instance_type=decision.instance_type,
                state=JobState.STOPPED.value,
                ended=self.now(),
                why="it was stopped before it started",
                usd=0.0,
                billable_seconds=0.0,
            )
        )
        self._tell_once(records, f"start-{stop.number}", lambda: notice_of_stop(plan, stop))

    def _tell_once(self, records: Records, about: str, notice: Callable[[], RunNotice]) -> None:
        """Tell people, once; twice where the step ends between the notice and its mark."""
        if not records.was_noticed(about):
            self.notify(notice())
            records.note_notice(about, self.now())


def _stop_after(records: Records, number: int) -> StartClaim | None:
    """Who has stopped the run when attempt `number` was about to start, or later; None where nobody has."""
    claim = records.start_of(number + 1)
    return claim if claim is not None and claim.stops else None


def _record(
    plan: ManagedPlan,
    number: int,
    status: JobStatus,
    now: float,
    report: RunReport,
    step: float | None,
    earlier: Sequence[Attempt],
) -> AttemptRecord:
    """How the attempt ended, with what is decided."""
    diagnosis, root = report.diagnosis, report.diagnosis.root_cause
    known = diagnosis.verdict is Verdict.FAILED and diagnosis.retry_known
    attempt = Attempt(
        status.name,
        _instance_type(plan, status),
        diagnosis.retry if known else Retry.NEVER,
        step,
        root.finding.code if root else None,
        _usd(plan, status),
    )
    decision = _decide(plan, status, [*earlier, attempt], known=known)
    following = decision if isinstance(decision, TryAgain) else None
    return AttemptRecord(
        number=number,
        name=attempt.name,
        instance_type=attempt.instance_type,
        state=status.state.value,
        ended=now,
        why=decision.why,
        verdict=None if status.state is JobState.COMPLETED else diagnosis.verdict.value,
        retry=attempt.retry.value,
        cause=attempt.cause,
        message=root.finding.message if root else diagnosis.summary,
        remedy=root.finding.remedy if root else None,
        rank=root.rank if root else None,
        host=root.host if root else None,
        step=step,
        usd=attempt.usd,
        billable_seconds=status.billable_seconds,
        following=following,
        not_before=now + following.wait_seconds if following else 0.0,
    )


def _unread(
    plan: ManagedPlan, number: int, status: JobStatus, now: float, refusal: AwsRefusal
) -> AttemptRecord:
    """The record of an attempt whose lines AWS refuses: nothing follows what nobody has read."""
    completed = status.state is JobState.COMPLETED
    return AttemptRecord(
        number=number,
        name=status.name,
        instance_type=_instance_type(plan, status),
        state=status.state.value,
        ended=now,
        why="it completed" if completed else f"why it ended could not be read: {refusal.message}",
        verdict=None if completed else Verdict.UNKNOWN.value,
        remedy=refusal.remedy,
        usd=_usd(plan, status),
        billable_seconds=status.billable_seconds,
    )


def _decide(
    plan: ManagedPlan, status: JobStatus, attempts: Sequence[Attempt], *, known: bool
) -> TryAgain | GiveUp:
    if status.state is JobState.COMPLETED:
        return GiveUp("it completed")
    if status.state is not JobState.FAILED:
        return GiveUp("it was stopped")
    if not known:
        return GiveUp("the cause is not known, and only a known one is a reason for another attempt")
    decision = after_failure(
        attempts,
        max_retries=plan.max_retries,
        instance_types=list(plan.requests),
        service_chooses=plan.service_chooses,
        may_check_hosts=plan.may_check_hosts,
    )
    if isinstance(decision, GiveUp):
        return decision
    request = plan.request_on(decision.instance_type)
    left = budget_after(request, attempts)
    if left is None:
        return decision
    view = RequestView(request)
    return hold_to_budget(decision, attempts, left.seconds(view.hosts or 1, view.keep_alive_seconds))


def _instance_type(plan: ManagedPlan, status: JobStatus) -> str:
    """The type of the attempt's hosts: that which the service chose, else the preferred one."""
    own = status.request.instance_type if status.request else None
    return own or next(iter(plan.requests))


def _usd(plan: ManagedPlan, status: JobStatus) -> float | None:
    """What the attempt cost, in US dollars; None where no price is known."""
    if status.request is None or status.billable_seconds is None:
        return None
    return spent_usd(status.request, plan.region, status.billable_seconds)
