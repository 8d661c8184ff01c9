"""The cluster's queue: AWS Batch holds a plan's request until there is room, then creates the job.

A queued job is known by the name that the launcher gave it. Batch creates the training jobs itself, one
per attempt, under names of its own (its service-linked role may create no others), so this backend
translates: states, logs and stop go by our name. Source: AWS Batch user guide, service-jobs; AWS Batch
API reference, SubmitServiceJob and DescribeServiceJob.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import answers, never_carried_out
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
    NameTakenError,
    OnProgress,
    UncertainError,
    UnknownJob,
    UnusablePlan,
)
from launcher.cluster.names import TRAINING_IN_BATCH
from launcher.diagnosis.model import Stop, StopCause
from launcher.failure_modes import nccl
from launcher.failure_modes.model import AwsRefusal
from launcher.text.regular_files import user_secret

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView
    from launcher.planning.training_plan import Operation, TrainingPlan


class QueueBackend(Backend):
    """Submits plans to a queue of AWS Batch.

    `batch` is boto3's client, `training` the backend of the training jobs that the queue creates, `provide`
    brings a plan's code and checkpoint to S3, and `share` names the fair share to submit under, which a
    queue with shares demands and one without refuses. `renewed` makes the client of Batch again once
    `training` has renewed the credentials; without it the client stays as it is.
    """

    name = "queue"
    retries_itself = True

    def __init__(
        self,
        batch: Any,
        queue_arn: str,
        *,
        training: Backend,
        provide: Callable[[TrainingPlan, OnProgress | None], None],
        share: str | None = None,
        renewed: Callable[[], Any] | None = None,
    ) -> None:
        self._batch = batch
        self._queue_arn = queue_arn
        self._training = training
        self._provide = provide
        self._share = share
        self._renewed = renewed

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Bring the code to S3, then put the request into the queue, once; returns the job's name.

        The name is the token by which Batch knows a repeated call.
        """
        if plan.refused or plan.request is None:
            raise UnusablePlan
        if plan.operation != "CreateTrainingJob":
            raise BackendError(
                f"a queue takes training jobs only, not {plan.operation}.",
                "Leave out `tuning`, or submit without the queue.",
            )
        self._provide(plan, on_progress)
        name = str(plan.name)
        try:
            self._put(name, plan.request)
        except AwsRefusal as refusal:
            if never_carried_out(refusal):
                raise
            self._confirm(name, plan.request, refusal)
        return name

    @property
    def queue_arn(self) -> str:
        """The queue of AWS Batch."""
        return self._queue_arn

    def state_of(self, job_name: str, operation: Operation) -> JobState | None:
        """How a job stands in the queue; None where the queue has none of that name."""
        job_id = self._find(job_name)
        return None if job_id is None else state_in_queue(self._described(job_name, job_id))

    def describe(self, job_name: str) -> JobStatus:
        """How the job is: the queue's word on whether it has ended, the training job's on the rest."""
        job = self._job(job_name)
        state = state_in_queue(job)
        attempts = attempts_of(job)
        if not attempts:
            return JobStatus(
                name=job_name,
                state=state,
                phase=phase_in_queue(job["status"], state),
                failure_reason=reason_of(job) if state is JobState.FAILED else None,
                seconds=seconds_of(job),
                stop=stop_of(job, state),
            )
        training = self._training.describe(attempts[-1])
        if state is JobState.FAILED and training.state is JobState.STOPPED:
            state = JobState.STOPPED  # The queue knows no such end.
        return replace(
            training,
            name=job_name,
            state=state,
            # A failed attempt that the queue repeats is not a failed job.
            phase=training.phase if state.is_final or not training.state.is_final else "Waiting for a retry",
            failure_reason=(training.failure_reason or reason_of(job)) if state is JobState.FAILED else None,
            stop=stop_of(job, state, training.stop),
        )

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What the hosts of all attempts printed since the cursor, attempt by attempt."""
        lines: list[LogLine] = []
        reached: dict[str, str] = {}
        more = False
        for attempt in attempts_of(self._job(job_name)):
            prefix = f"{attempt}|"
            inner = {key.removeprefix(prefix): at for key, at in cursor.items() if key.startswith(prefix)}
            batch = self._training.read_logs(attempt, inner)
            lines += batch.lines
            more |= batch.more
            reached |= {prefix + key: at for key, at in batch.cursor.items()}
        return LogBatch(lines, {**cursor, **reached}, more)

    def stop(self, job_name: str, who: str | None = None) -> None:
        """Take the job out of the queue, or stop its training job where there is one; Batch keeps `who`."""
        job = self._job(job_name)
        if state_in_queue(job).is_final:
            return
        with answers(f"stop the queued job {job_name} (batch:TerminateServiceJob)"):
            self._batch.terminate_service_job(jobId=job["jobId"], reason=f"stopped by {who or 'its user'}")

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The queue's jobs, newest first, those that ended lately among them."""
        found: list[JobSummary] = []
        since = 0 if query.since is None else int(query.since.timestamp() * 1000)
        token: dict[str, str] = {}
        while query.limit is None or len(found) < query.limit:
            with answers("list the jobs of the queue (batch:ListServiceJobs)"):
                page = self._batch.list_service_jobs(
                    jobQueue=self._queue_arn,
                    filters=[{"name": "AFTER_CREATED_AT", "values": [str(since)]}],
                    **token,
                )
            found += [job for job in map(summary_of, page["jobSummaryList"]) if _is_asked_for(job, query)]
            if not page.get("nextToken"):
                break
            token = {"nextToken": page["nextToken"]}
        return found[: query.limit]

    def renew(self) -> None:
        """Make the clients again, with the credentials of this moment."""
        self._training.renew()
        if self._renewed is not None:
            self._batch = self._renewed()

    def holds(self, job_name: str) -> bool:
        """Whether the queue knows a job of this name."""
        return self._find(job_name) is not None

    def _put(self, name: str, request: Mapping[str, Any]) -> None:
        from launcher.planning.finished_request import with_host_token
        from launcher.planning.request_view import RequestView

        with answers(f"queue the job {name} (batch:SubmitServiceJob)"):
            self._batch.submit_service_job(
                jobName=name,
                jobQueue=self._queue_arn,
                serviceJobType=TRAINING_IN_BATCH,
                serviceRequestPayload=json.dumps(with_host_token(request, name, user_secret())),
                retryStrategy=retries_of(RequestView(request)),
                clientToken=name,
                tags=RequestView(request).tags,
                **({"shareIdentifier": self._share} if self._share else {}),
            )

    def _confirm(self, name: str, request: Mapping[str, Any], refusal: AwsRefusal) -> None:
        """Look whether the job is in the queue after all, and ours."""
        try:
            job = self._job(name)
        except UnknownJob:
            raise UncertainError(
                f"{refusal.message} The queue knows no job {name}: nothing was created.", refusal.remedy
            ) from refusal
        except AwsRefusal as unseen:
            raise UncertainError(
                f"{refusal.message} Whether the job {name} is in the queue cannot be seen: {unseen.message}",
                f"{unseen.remedy} Launching the same file again goes on under the same name and makes no "
                "second job.",
            ) from refusal
        from launcher.planning.finished_request import without_host_token

        if without_host_token(json.loads(job["serviceRequestPayload"])) != request:
            raise NameTakenError(
                f"there is another job {name} in the queue already.",
                "Launch again: every launch has a new name.",
            ) from refusal

    def _job(self, job_name: str) -> Mapping[str, Any]:
        job_id = self._find(job_name)
        if job_id is None:
            raise UnknownJob(
                f"there is no job {job_name} in the queue {self._queue_arn}.",
                "Correct the name. Batch forgets jobs some days after their end.",
            )
        return self._described(job_name, job_id)

    def _described(self, job_name: str, job_id: str) -> Mapping[str, Any]:
        with answers(f"describe the queued job {job_name} (batch:DescribeServiceJob)"):
            job: Mapping[str, Any] = self._batch.describe_service_job(jobId=job_id)
        return job

    def _find(self, job_name: str) -> str | None:
        """The id of a job by its name, in whatever state; Batch ignores case, names do not."""
        with answers(f"look for {job_name} in the queue (batch:ListServiceJobs)"):
            answer = self._batch.list_service_jobs(
                jobQueue=self._queue_arn, filters=[{"name": "JOB_NAME", "values": [job_name]}]
            )
        for summary in answer["jobSummaryList"]:
            if summary["jobName"] == job_name:
                return str(summary["jobId"])
        return None


def _is_asked_for(job: JobSummary, query: JobQuery) -> bool:
    return (query.name or "") in job.name and query.state in (None, job.state)


_MOST_ATTEMPTS = 10
"""Attempts of a service job (AWS Batch API, ServiceJobRetryStrategy)."""

_OTHER_HOSTS = ("HW", nccl.CLOSED_BY_PEER.code, nccl.RENDEZVOUS_TIMED_OUT.code)
"""How the codes begin of what other hosts may mend: hardware, connections that broke, a host that did not
answer the roll-call."""

_STATES = {"SUCCEEDED": JobState.COMPLETED, "FAILED": JobState.FAILED}
_FROM_SAGEMAKER = "Received status from SageMaker: "
_TRAINING_JOB = re.compile(r":training-job/(?P<name>[^/]+)$")


def retries_of(request: RequestView) -> dict[str, Any]:
    """How often the queue starts a job again, and after what; no more often than its budget pays for.

    After a fault of the service, and after one of the hosts or their network by the code with which the
    failure file begins; not in a warm pool, which would give the same hosts again. The reason that it
    compares begins with its own words. It repeats a job without capacity by itself and without counting.
    Source: AWS Batch user guide, service-job-retries: at most five rules; what none matches is repeated.
    """
    of_hosts = () if request.keep_alive_seconds else _OTHER_HOSTS
    passing = ("InternalServerError", *(f"AlgorithmError: {code}" for code in of_hosts))
    return {
        "attempts": min(request.max_retries + 1, _MOST_ATTEMPTS, paid_attempts(request)),
        "evaluateOnExit": [
            *({"action": "RETRY", "onStatusReason": f"{_FROM_SAGEMAKER}{each}*"} for each in passing),
            {"action": "EXIT", "onStatusReason": "*"},
        ],
    }


def paid_attempts(request: RequestView) -> int:
    """How many attempts of its full length a job's budget pays for; the queue looks at no bill in between."""
    budget = request.budget
    paid = None if budget is None else budget.seconds(request.hosts or 1, request.keep_alive_seconds)
    return _MOST_ATTEMPTS if paid is None else max(1, paid // request.max_runtime_seconds)


def state_in_queue(job: Mapping[str, Any]) -> JobState:
    """How the job stands; one that was terminated has not failed."""
    state = _STATES.get(job["status"], JobState.IN_PROGRESS)
    if not job.get("isTerminated"):
        return state
    return JobState.STOPPED if state.is_final else JobState.STOPPING


def phase_in_queue(status: str, state: JobState) -> str:
    """What to call the phase of a job that no training job was created for."""
    return state.value if state is not JobState.IN_PROGRESS else f"Queued ({status.lower()})"


def reason_of(job: Mapping[str, Any]) -> str | None:
    """Why the job failed, in SageMaker's words where the queue only hands them on."""
    reason = job.get("statusReason")
    return None if reason is None else str(reason).removeprefix(_FROM_SAGEMAKER)


def stop_of(job: Mapping[str, Any], state: JobState, training: Stop | None = None) -> Stop | None:
    """What ended the job from outside: who took it out of the queue, else what ended its training job."""
    if state not in (JobState.STOPPING, JobState.STOPPED) or not job.get("isTerminated"):
        return training
    who, ended = reason_of(job), job.get("stoppedAt")
    if training is None:
        return Stop(StopCause.QUEUE, who, ended / 1000 if ended else None)
    return replace(training, who=who.removeprefix("stopped by ")) if who else training


def attempts_of(job: Mapping[str, Any]) -> list[str]:
    """The names of the training jobs that were created for it, the oldest first."""
    resources = [
        each.get("serviceResourceId") for each in (*job.get("attempts", ()), job.get("latestAttempt")) if each
    ]
    names = [_TRAINING_JOB.search(each["value"]) for each in resources if each]
    return list(dict.fromkeys(match["name"] for match in names if match))


def summary_of(job: Mapping[str, Any]) -> JobSummary:
    """The job in a list, from a summary of ListServiceJobs."""
    state = state_in_queue(job)
    return JobSummary(
        name=job["jobName"],
        state=state,
        phase=phase_in_queue(job["status"], state),
        created=_time(job["createdAt"]),
        ended=_time(job["stoppedAt"]) if job.get("stoppedAt") else None,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """The time since the job came into the queue, to its end or until now."""
    created = job.get("createdAt")
    if created is None:
        return None
    ended = float(job.get("stoppedAt") or time.time() * 1000)
    return max(0.0, (ended - float(created)) / 1000)
