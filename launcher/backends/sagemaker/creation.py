"""Create a job once, whatever happens to the call, and tell it as DescribeTrainingJob does.

The unique name is the idempotency key: a call whose answer is lost is repeated under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors, never_carried_out
from launcher.backends.interface import (
    BackendError,
    JobState,
    JobStatus,
    NameTakenError,
    Transition,
    UncertainError,
)
from launcher.cluster.names import host_name
from launcher.diagnosis.model import Stop, StopCause
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.frozen import frozen
from launcher.text.regular_files import user_secret

if TYPE_CHECKING:
    from launcher.planning.request_view import Request, RequestView
    from launcher.planning.training_plan import Operation


@frozen
class _Api:
    """The calls for one kind of job, and their keys."""

    noun: str
    create: str
    describe: str
    key: str
    arn: str
    status: str


_APIS: Mapping[Operation, _Api] = {
    "CreateTrainingJob": _Api(
        "training job",
        "create_training_job",
        "describe_training_job",
        "TrainingJobName",
        "TrainingJobArn",
        "TrainingJobStatus",
    ),
    "CreateHyperParameterTuningJob": _Api(
        "tuning job",
        "create_hyper_parameter_tuning_job",
        "describe_hyper_parameter_tuning_job",
        "HyperParameterTuningJobName",
        "HyperParameterTuningJobArn",
        "HyperParameterTuningJobStatus",
    ),
}


def create_once(
    sagemaker: Any,
    request: Request,
    operation: Operation,
    *,
    job: Mapping[str, Any] | None = None,
    secret: bytes | None = None,
) -> str:
    """Send a request; afterwards its job exists, once, and is ours. Returns the job's name.

    `job` is the resolved job that the request was made from, None where nobody has it. The token of the hosts
    is made with `secret`, by default this user's.
    Raises AwsRefusal where AWS refused and so created nothing, UncertainError where it answered nothing
    that tells, and NameTakenError where the name belongs to another job. None of the user's environment or
    hyperparameters is in the messages.
    """
    # Listing and stopping jobs reads no requests.
    from launcher.planning.finished_request import with_host_token
    from launcher.planning.request_view import RequestView

    api, view = _APIS[operation], RequestView(request)
    name = str(view.name)
    try:
        sent = with_host_token(request, name, secret or user_secret())
        refusal = _send(sagemaker, api, dict(sent), name)
        if refusal is not None:
            _confirm(sagemaker, api, request, name, refusal)
    except Refusal as error:
        hidden = _without(_users_values(view, job), error)
        if hidden is not error:
            # The original has the values too, and a traceback would show them.
            raise hidden from None
        raise
    return name


def existing_state(sagemaker: Any, operation: Operation, name: str) -> JobState | None:
    """How the job of that name is, or None where AWS knows none."""
    found = _find(sagemaker, _APIS[operation], name)
    return None if found is None else job_state(found[_APIS[operation].status])


def _send(sagemaker: Any, api: _Api, request: Request, name: str) -> AwsRefusal | None:
    """Send the request; None where AWS confirmed it, else why it is not known what became of it."""
    from botocore.exceptions import ParamValidationError

    try:
        with aws_errors(f"create the {api.noun} {name}"):
            answer = getattr(sagemaker, api.create)(**request)
    except AwsRefusal as error:
        if isinstance(error.__cause__, ParamValidationError):
            # Its own text repeats the values.
            fields = sorted(set(re.findall(r"for parameter ([\w.\-]+)", str(error.__cause__))))
            raise BackendError(
                f"the API does not take the request's {', '.join(fields) or 'keys'} as they are.",
                "Correct the findings of `launch check` instead of ignoring them.",
            ) from None
        if never_carried_out(error):
            raise
        return error
    if answer.get(api.arn):
        return None
    return AwsRefusal(f"AWS answered without confirming the {api.noun} {name}.", "Launch again.")


def _confirm(sagemaker: Any, api: _Api, request: Request, name: str, refusal: AwsRefusal) -> None:
    """Look whether the job is there after all, and ours."""
    try:
        found = _find(sagemaker, api, name)
    except AwsRefusal as unseen:
        raise UncertainError(
            f"{refusal.message} Whether the {api.noun} {name} was created cannot be seen: {unseen.message}",
            f"{unseen.remedy} Launching the same file again goes on under the same name and makes no second "
            "job.",
        ) from refusal
    if found is None:
        raise UncertainError(
            f"{refusal.message} AWS knows no {api.noun} {name}: nothing was created.", refusal.remedy
        ) from refusal
    differing = differing_fields(request, found)
    if differing:
        raise NameTakenError(
            f"there is another {api.noun} {name} already; it differs in: {', '.join(differing)}.",
            "Launch again: every launch has a new name.",
        ) from refusal


def _find(sagemaker: Any, api: _Api, name: str) -> dict[str, Any] | None:
    """What AWS says of the job, None where there is none of that name.

    The service then answers ValidationException, not the ResourceNotFound of its model
    (boto/boto3 issue 2808).
    """
    from botocore.exceptions import ClientError

    with aws_errors(f"describe the {api.noun} {name}"):
        try:
            found: dict[str, Any] = getattr(sagemaker, api.describe)(**{api.key: name})
            return found
        except ClientError as error:
            answer = error.response.get("Error", {})
            absent = re.search("not found|could not find", str(answer.get("Message")), re.IGNORECASE)
            if answer.get("Code") == "ResourceNotFound" or (
                answer.get("Code") == "ValidationException" and absent
            ):
                return None
            raise


def differing_fields(sent: Request, described: Mapping[str, Any]) -> list[str]:
    """The fields of a request that AWS tells otherwise; what it does not tell, or adds, does not count."""
    return [
        field for field, value in sent.items() if field in described and not _agree(value, described[field])
    ]


def _agree(sent: Any, described: Any) -> bool:
    if isinstance(sent, dict) and isinstance(described, dict):
        return all(_agree(value, described[key]) for key, value in sent.items() if key in described)
    if isinstance(sent, list) and isinstance(described, list):
        return len(sent) == len(described) and all(map(_agree, sent, described))
    if isinstance(sent, str) and isinstance(described, str):
        return sent.rstrip("/") == described.rstrip("/")
    return bool(sent == described)


_SHORTEST_SECRET = 6
"""Shorter values are found in any text; hiding them would hide the message."""


def _users_values(view: RequestView, job: Mapping[str, Any] | None) -> list[str]:
    """What the user put into the environment and the hyperparameters, longest first.

    A request that comes without its job file does not tell the user's values from the launcher's.
    """
    if not job:
        places = [view.environment, view.hyperparameters]
    else:
        places = [job.get("environment") or {}, job.get("hyperparameters") or {}]
    given = [value for place in places for value in place.values()]
    texts = {str(value) for value in given if len(str(value)) >= _SHORTEST_SECRET}
    return sorted(texts, key=len, reverse=True)


def _without(values: Iterable[str], error: Refusal) -> Refusal:
    message = error.message
    for value in values:
        message = message.replace(value, "***")
    return error if message == error.message else type(error)(message, error.remedy)


_OTHER_STATES = {"Deleting": JobState.STOPPED, "DeleteFailed": JobState.STOPPED}
"""States of a job that has ended and is taken away (TrainingJobStatus of the API model)."""


def status_of(job: Mapping[str, Any]) -> JobStatus:
    """The status in an answer of DescribeTrainingJob."""
    # Listing and stopping jobs reads no requests.
    from launcher.planning.request_view import RequestView

    transitions = tuple(map(_transition, job.get("SecondaryStatusTransitions", ())))
    request = RequestView(job)
    return JobStatus(
        name=str(job["TrainingJobName"]),
        state=job_state(job["TrainingJobStatus"]),
        phase=job.get("SecondaryStatus", job["TrainingJobStatus"]),
        failure_reason=job.get("FailureReason"),
        checkpoints=request.checkpoints.prefix,
        output=job.get("ModelArtifacts", {}).get("S3ModelArtifacts"),
        seconds=seconds_of(job),
        billable_seconds=_billable_seconds(job),
        explanation=_explanation(job),
        transitions=transitions,
        hosts=request.hosts,
        processes_per_host=request.processes_per_host,
        metrics=request.metrics,
        request=request,
        stop=_stop(job_state(job["TrainingJobStatus"]), job, request, transitions),
        shell=shell_commands(job, request),
    )


def job_state(text: str) -> JobState:
    """A TrainingJobStatus or HyperParameterTuningJobStatus of the API. Raises AwsRefusal for another text."""
    try:
        return _OTHER_STATES.get(text) or JobState(text)
    except ValueError:
        raise AwsRefusal(
            f"AWS says that a job is {text!r}, a state that this launcher does not know.",
            "Check the network (a proxy that answers in AWS's place), and look for a newer launcher.",
        ) from None


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """The time since the job's creation, to its end or to the moment of the answer.

    By the service's clock in both: this machine's may be wrong.
    """
    started = job.get("CreationTime")
    if started is None:
        return None
    ended = job.get("TrainingEndTime") or job.get("HyperParameterTuningEndTime") or _answered_at(job)
    return max(0.0, float((ended - started).total_seconds()))


def _billable_seconds(job: Mapping[str, Any]) -> float:
    """What each host is billed for so far; 0 before there are hosts.

    Hosts are billed from TrainingStartTime to TrainingEndTime, spot hosts for less (SageMaker API reference,
    DescribeTrainingJob), so that without BillableTimeInSeconds, as while the job runs, it is that at most.
    """
    billed = job.get("BillableTimeInSeconds")
    if billed is not None:
        return float(billed)
    started = job.get("TrainingStartTime")
    if started is None:
        return 0.0
    ended = job.get("TrainingEndTime") or _answered_at(job)
    return max(0.0, float((ended - started).total_seconds()))


def _stop(
    state: JobState, job: Mapping[str, Any], request: RequestView, transitions: Sequence[Transition]
) -> Stop | None:
    """What ended the job from outside; None where nothing did, or a spot job never got its hosts.

    A spot interruption after which the service starts the job again is none. Who called StopTrainingJob is
    known to CloudTrail alone. Source: SageMaker API reference, DescribeTrainingJob (SecondaryStatus).
    """
    if state not in (JobState.STOPPING, JobState.STOPPED):
        return None
    at = _stopped_at(transitions)
    match job.get("SecondaryStatus"):
        case "MaxRuntimeExceeded" if request.budget is not None and request.is_cut_by_budget:
            who = f"a budget of {request.budget.max_usd:,.2f} USD"
            return Stop(StopCause.MAX_USD, who, at, request.max_runtime_seconds)
        case "MaxRuntimeExceeded":
            return Stop(StopCause.MAX_RUNTIME, at=at, limit=request.max_runtime_seconds)
        case "MaxWaitTimeExceeded":
            trained = any(each.phase == "Training" for each in transitions)
            return Stop(StopCause.MAX_WAIT, at=at, limit=request.max_wait_seconds) if trained else None
        case "Interrupted":
            return Stop(StopCause.SPOT, at=at)
    return Stop(StopCause.ASKED, "whoever called StopTrainingJob (CloudTrail knows)", at)


def _stopped_at(transitions: Sequence[Transition]) -> float | None:
    """When the stop began, which is before the containers got their signal."""
    asked = next((each.started for each in transitions if each.phase == "Stopping"), None)
    if asked is not None:
        return asked
    worked = [each.ended for each in transitions if each.phase == "Training" and each.ended is not None]
    return worked[-1] if worked else transitions[-1].started if transitions else None


def _answered_at(job: Mapping[str, Any]) -> datetime:
    date = job.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        time = parsedate_to_datetime(date) if date else None
    except ValueError:
        time = None
    if time is None:
        return datetime.now(UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _transition(described: Mapping[str, Any]) -> Transition:
    ended = described.get("EndTime")
    return Transition(
        described["Status"], described["StartTime"].timestamp(), ended.timestamp() if ended else None
    )


def _explanation(job: Mapping[str, Any]) -> str | None:
    transitions = job.get("SecondaryStatusTransitions", ())
    return (transitions[-1].get("StatusMessage") or None) if transitions else None


_UPDATED_IN = ("Downloading", "Training")


def shell_commands(job: Mapping[str, Any], request: RequestView) -> tuple[str, ...]:
    """The commands that lead to a shell in the first container, in turn, by an answer of DescribeTrainingJob.

    The first of two switches it on where the job was created without it. None where there is no way in: of a
    job that does not run yet or any more, or that is isolated from the network.
    """
    if request.options.is_isolated or job.get("SecondaryStatus") not in _UPDATED_IN:
        return ()
    name, region = job["TrainingJobName"], job["TrainingJobArn"].split(":")[3]
    target = f"sagemaker-training-job:{name}_{host_name(1)}"
    session = f"aws ssm start-session --region {region} --target {target}"
    if request.options.lets_a_shell_in:
        return (session,)
    update = f"aws sagemaker update-training-job --region {region} --training-job-name {name}"
    return (f"{update} --remote-debug-config EnableRemoteDebug=true", session)
