"""The backend of managed training jobs, and of the tuning jobs that create them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import answers
from launcher.aws.lookups import expected_owners, request_in
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
    UnknownJob,
    UnusablePlan,
)
from launcher.backends.sagemaker.creation import create_once, existing_state, job_state, seconds_of, status_of
from launcher.backends.sagemaker.logs import LogStreams
from launcher.backends.sagemaker.resume import LeftCheckpoint, copy_checkpoint, left_checkpoint
from launcher.backends.sagemaker.upload import upload_code
from launcher.failure_modes.model import AwsRefusal

if TYPE_CHECKING:
    from launcher.planning.request_view import Request
    from launcher.planning.training_plan import Operation, TrainingPlan

_UNKNOWN = ("not found", "could not find", "does not exist", "jobname' failed to satisfy constraint")
"""What a ValidationException says of a name that no job has, or can have."""

_NOT_RUNNING = "is in status"
"""What it says of a job that has ended, or stops already (awslabs/benchmark-ai issue 928)."""


class SageMakerBackend(Backend):
    """Submits plans as training jobs; the clients are boto3's for sagemaker, logs and s3.

    `renewed` makes these three again, with the credentials of that moment; without it they stay as they are.
    """

    name = "sagemaker"

    def __init__(
        self, sagemaker: Any, logs: Any, s3: Any, renewed: Callable[[], tuple[Any, Any, Any]] | None = None
    ) -> None:
        self._sagemaker = sagemaker
        self._logs = logs
        self._s3 = s3
        self._renewed = renewed
        self._readers: dict[str, LogStreams] = {}
        self._described: set[str] = set()
        self._tuning: set[str] = set()

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Upload the code, then create the training job; nothing is created if the upload fails."""
        provide(self._sagemaker, self._s3, plan, on_progress)
        return create_once(self._sagemaker, plan.request or {}, plan.operation, job=plan.job)

    def state_of(self, job_name: str, operation: Operation) -> JobState | None:
        """How a training job or a tuning job is; None where there is none of that name."""
        return existing_state(self._sagemaker, operation, job_name)

    def describe(self, job_name: str) -> JobStatus:
        """The job's status by DescribeTrainingJob, or that of a tuning job.

        Raises UnknownJob where there is neither.
        """
        if job_name in self._tuning:
            return describe_tuning_job(self._sagemaker, job_name)
        try:
            with answers(f"describe the training job {job_name}"):
                status = status_of(self._sagemaker.describe_training_job(TrainingJobName=job_name))
        except AwsRefusal as refusal:
            if not _is_unknown(refusal):
                raise
            return self._describe_tuning(job_name)
        self._described.add(job_name)
        self._reader(job_name).note_status(status)
        return status

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What all hosts printed since the cursor; a tuning job prints nothing itself."""
        if job_name in self._tuning:
            return LogBatch([], cursor)
        batch = self._reader(job_name).read(cursor)
        if not batch.cursor and job_name not in self._described:
            self.describe(job_name)  # A job that has printed nothing and one that is not there look alike.
        return batch

    def stop(self, job_name: str, who: str | None = None) -> None:
        """StopTrainingJob: SIGTERM to the containers, and 120 seconds for them to end.

        The service keeps no word of `who` asked, but in CloudTrail.
        A policy that goes by the job's tags denies to stop a training job that is not there, as one that is
        a tuning job: only a description tells.
        """
        try:
            if job_name in self._tuning:
                stop_tuning_job(self._sagemaker, job_name)
                return
            with answers(f"stop the training job {job_name}"):
                self._sagemaker.stop_training_job(TrainingJobName=job_name)
        except AwsRefusal as refusal:
            if _NOT_RUNNING in _validation_message(refusal):
                return
            if job_name in self._tuning or not (_is_unknown(refusal) or _is_denied(refusal)):
                raise
            try:
                self.describe(job_name)
            except AwsRefusal:
                if _is_denied(refusal):
                    raise refusal from refusal.__cause__
                raise
            if job_name not in self._tuning:
                raise
            self.stop(job_name)

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The region's training jobs by ListTrainingJobs, also those that others launched."""
        return list_jobs(self._sagemaker, query)

    def request_of(self, job_name: str) -> Request:
        """What CreateTrainingJob was called with, the tags too. Raises UnknownJob where there is none."""
        if job_name not in self._described:
            self.describe(job_name)
        if job_name in self._tuning:
            raise BackendError(
                f"{job_name} is a tuning job; its training jobs are resumed one by one.",
                f"`launch list --name {job_name}` shows them.",
            )
        with answers(f"describe the training job {job_name}"):
            described = self._sagemaker.describe_training_job(TrainingJobName=job_name)
        request, arn = request_in(self._sagemaker, described), described["TrainingJobArn"]
        with answers(f"list the tags of {job_name}"):
            pages = self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
            request["Tags"] = [tag for page in pages for tag in page["Tags"]]
        return request

    def has_checkpoint(self, job_name: str) -> bool:
        """Whether the job left a complete checkpoint on S3 to go on from."""
        return self.left_checkpoint(job_name) is not LeftCheckpoint.NOTHING

    def left_checkpoint(self, job_name: str) -> LeftCheckpoint:
        """What the job left on S3 to go on from. Raises AwsRefusal where AWS refuses."""
        from launcher.planning.request_view import RequestView

        return left_checkpoint(self._s3, RequestView(self.request_of(job_name)))

    def release_hosts(self, job_name: str) -> None:
        """End the warm pool that a job left, so that no other job gets its hosts.

        A job that failed leaves one too, unless the fault was the service's. Source: SageMaker developer
        guide, train-warm-pools. Nothing is to be done where the pool is gone. Raises AwsRefusal where AWS
        refuses otherwise.
        """
        try:
            with answers(f"end the warm pool of {job_name} (sagemaker:UpdateTrainingJob)"):
                self._sagemaker.update_training_job(
                    TrainingJobName=job_name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
                )
        except AwsRefusal as refusal:
            if not _validation_message(refusal) or self._has_hosts(job_name):
                raise

    def _has_hosts(self, job_name: str) -> bool:
        """Whether a job's hosts are in its warm pool (SageMaker API reference, WarmPoolStatus)."""
        with answers(f"describe the training job {job_name}"):
            described = self._sagemaker.describe_training_job(TrainingJobName=job_name)
        return described.get("WarmPoolStatus", {}).get("Status") in ("Available", "InUse")

    def provide(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> None:
        """Bring to S3 what the plan's request speaks of, for whoever creates the job."""
        provide(self._sagemaker, self._s3, plan, on_progress)

    def resume(self, earlier: str, request: Request, on_progress: OnProgress | None = None) -> str:
        """Copy the earlier job's newest checkpoint to the request's own prefix, then create the job."""
        self.copy_checkpoint(earlier, request, on_progress)
        return self.create(request)

    def copy_checkpoint(
        self,
        earlier: str,
        request: Request,
        on_progress: OnProgress | None = None,
        time_left: Callable[[], float] | None = None,
    ) -> None:
        """Copy the earlier job's newest checkpoint to the request's own prefix, as `resume.copy_checkpoint`
        does."""
        from launcher.planning.request_view import RequestView

        copy_checkpoint(self._sagemaker, self._s3, earlier, RequestView(request), on_progress, time_left)

    def create(self, request: Request, secret: bytes | None = None) -> str:
        """Create the job of a request whose code is on S3 already, once under its name, and return that.

        `secret` is what its hosts' token is made with, by default this user's. Raises as `submit`.
        """
        return create_once(self._sagemaker, request, "CreateTrainingJob", secret=secret)

    def renew(self) -> None:
        """Make the clients again, with the credentials of this moment."""
        if self._renewed is None:
            return
        self._sagemaker, self._logs, self._s3 = self._renewed()
        for reader in self._readers.values():
            reader.use(self._logs)

    def _reader(self, job_name: str) -> LogStreams:
        if job_name not in self._readers:
            self._readers[job_name] = LogStreams(self._logs, job_name)
        return self._readers[job_name]

    def _describe_tuning(self, job_name: str) -> JobStatus:
        try:
            status = describe_tuning_job(self._sagemaker, job_name)
        except AwsRefusal as refusal:
            if not _is_unknown(refusal):
                raise
            raise UnknownJob(
                f"there is no training job {job_name} in {self._sagemaker.meta.region_name}.",
                "Correct the name (`launch list` shows them), or set AWS_REGION to the job's region.",
            ) from refusal
        self._tuning.add(job_name)
        return status


def _is_unknown(refusal: AwsRefusal) -> bool:
    if _error(refusal).get("Code") in ("ResourceNotFound", "ResourceNotFoundException"):
        return True
    return any(words in _validation_message(refusal) for words in _UNKNOWN)


def _is_denied(refusal: AwsRefusal) -> bool:
    return _error(refusal).get("Code") in ("AccessDenied", "AccessDeniedException")


def _validation_message(refusal: AwsRefusal) -> str:
    """What a ValidationException says, in lower case; empty for any other refusal."""
    error = _error(refusal)
    return str(error.get("Message", "")).lower() if str(error.get("Code")).startswith("Validation") else ""


def _error(refusal: AwsRefusal) -> Mapping[str, object]:
    from botocore.exceptions import ClientError

    cause = refusal.__cause__
    return cause.response.get("Error", {}) if isinstance(cause, ClientError) else {}


def provide(sagemaker: Any, s3: Any, plan: TrainingPlan, on_progress: OnProgress | None = None) -> None:
    """Bring to S3 what the plan's request speaks of: the code, and the checkpoint to resume from.

    Raises BackendError for a plan that cannot be sent, BackendError or AwsRefusal where the way to S3 fails;
    no half object is left that a job could read.
    """
    if plan.refused or plan.package is None:
        raise UnusablePlan
    if plan.placeholders:
        missing = ", ".join(plan.placeholders)
        raise BackendError(
            f"the plan still holds placeholders for: {missing}.",
            "Give them in the job file, or name a provisioned `cluster`.",
        )
    with expected_owners(s3, plan.bucket_owners):
        upload_code(s3, plan.package, on_progress)
        reference = (plan.job.get("checkpoint") or {}).get("resume_from")
        if reference and plan.view is not None:
            copy_checkpoint(sagemaker, s3, str(reference), plan.view, on_progress)


_PAGE_JOBS = 100
"""The most that one ListTrainingJobs answers (MaxResults of the API model)."""


def list_jobs(sagemaker: Any, query: JobQuery) -> list[JobSummary]:
    """The jobs that the query asks for, newest first; reads no more pages than its limit needs."""
    conditions: dict[str, Any] = {
        "NameContains": query.name,
        "StatusEquals": query.state.value if query.state else None,
        "CreationTimeAfter": query.since,
    }
    found: dict[str, JobSummary] = {}
    token: str | None = None
    while query.limit is None or len(found) < query.limit:
        with answers("list the training jobs"):
            page = sagemaker.list_training_jobs(
                SortBy="CreationTime",
                SortOrder="Descending",
                MaxResults=_PAGE_JOBS,
                **{name: value for name, value in conditions.items() if value is not None},
                **({"NextToken": token} if token else {}),
            )
            jobs = page["TrainingJobSummaries"]
        # A job that was created meanwhile moves the others on, and one may come on two pages.
        for job in jobs:
            # The API takes whole seconds and so also answers the jobs of the very second.
            if query.since is None or job["CreationTime"] > query.since:
                found.setdefault(job["TrainingJobName"], _summary(job))
        token = page.get("NextToken")
        if not token:
            break
    return list(found.values())[: query.limit]


def _summary(job: dict[str, Any]) -> JobSummary:
    return JobSummary(
        name=job["TrainingJobName"],
        state=job_state(job["TrainingJobStatus"]),
        phase=job.get("SecondaryStatus") or job["TrainingJobStatus"],
        created=job["CreationTime"],
        ended=job.get("TrainingEndTime"),
    )


_COUNTERS = (
    ("InProgress", "running"),
    ("Completed", "completed"),
    ("RetryableError", "to be tried again"),
    ("NonRetryableError", "failed"),
    ("Stopped", "stopped"),
)
"""TrainingJobStatusCounters of the API model, and what is shown for each."""


def describe_tuning_job(sagemaker: Any, name: str) -> JobStatus:
    """How a tuning job is; the phase holds its counters, the explanation its best training job."""
    # Listing and stopping jobs reads no requests.
    from launcher.planning.request_view import RequestView

    with answers(f"describe the tuning job {name}"):
        job = sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    state = job_state(job["HyperParameterTuningJobStatus"])
    nothing_yet = None if state.is_final else "no training job has reported the objective yet"
    return JobStatus(
        name=name,
        state=state,
        phase=_counted(job.get("TrainingJobStatusCounters", {})) if not state.is_final else state.value,
        failure_reason=job.get("FailureReason"),
        output=RequestView(job).output_uri,
        seconds=seconds_of(job),
        explanation=_best(job.get("BestTrainingJob")) or nothing_yet,
    )


def stop_tuning_job(sagemaker: Any, name: str) -> None:
    """Ask a tuning job to stop, and with it its training jobs."""
    with answers(f"stop the tuning job {name}"):
        sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)


def _counted(counters: Mapping[str, int]) -> str:
    parts = [f"{counters[name]} {words}" for name, words in _COUNTERS if counters.get(name)]
    return f"Tuning ({', '.join(parts)})" if parts else "Tuning"


def _best(job: Mapping[str, Any] | None) -> str | None:
    if not job:
        return None
    metric = job.get("FinalHyperParameterTuningJobObjectiveMetric", {})
    value = f", {metric['MetricName']} {metric['Value']:g}" if "Value" in metric else ""
    tuned = ", ".join(f"{name}={value}" for name, value in job.get("TunedHyperParameters", {}).items())
    return f"best: {job['TrainingJobName']}{value}" + (f" ({tuned})" if tuned else "")
