"""Jobs created once, whatever becomes of the call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session

from launcher.backends.interface import BackendError, JobState, NameTakenError, Progress, UncertainError
from launcher.backends.sagemaker import creation
from launcher.backends.sagemaker.creation import job_state, status_of
from launcher.failure_modes.model import AwsRefusal
from launcher.planning.finished_request import without_host_token
from launcher.source.folder_walk import SourceError
from tests.backends.sagemaker.conftest import Emulated
from tests.emulator.faults import (
    BAD_GZIP_DONE,
    DENIED,
    EMPTY,
    EMPTY_DONE,
    EXPIRED,
    HANG,
    INTERNAL,
    LIMIT,
    LOST,
    LOST_IN_TIME,
    RESET,
    SKEWED,
    THROTTLED,
    Fault,
    inject,
)
from tests.session.submission.launches import FOR_GOOD, entries, launch, names


def test_what_is_sent_is_the_request_of_the_plan(aws: Emulated) -> None:
    plan = aws.plan_of("0unique")
    assert launch(aws.backend, plan) == "digits-0unique"
    [sent] = aws.script.requests
    assert sent != without_host_token(sent) == plan.request
    assert entries() == []


def test_a_job_goes_through_its_phases_to_its_end(aws: Emulated) -> None:
    name = aws.backend.submit(aws.plan_of("0unique"))
    seen = [aws.backend.describe(name) for _ in range(5)]
    phases = ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert [status.phase for status in seen] == phases
    assert (seen[-1].state, seen[-1].checkpoints) == (
        JobState.COMPLETED,
        "s3://dev-checkpoints/digits-0unique",
    )


def test_neither_placeholders_nor_code_that_could_not_be_planned_are_submitted(
    aws: Emulated, tmp_path: Path
) -> None:
    with pytest.raises(BackendError, match="role_arn, bucket"):
        launch(aws.backend, aws.plan_of(cluster=False))
    (tmp_path / "src" / "link").symlink_to("/etc/passwd")
    plan = aws.plan_of(ignore=["CODE002"])
    assert not plan.refused
    with pytest.raises(SourceError, match="link is a symbolic link"):
        launch(aws.backend, plan)
    assert aws.script.requests == []


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize(
    "faults",
    [
        [THROTTLED],
        [THROTTLED, THROTTLED, THROTTLED],
        [RESET],
        [HANG],
        [INTERNAL],
        [LOST],
        [LOST_IN_TIME],
        [EMPTY_DONE],
        [BAD_GZIP_DONE],
        [LOST, *[THROTTLED] * FOR_GOOD],
        [LOST, *[RESET] * FOR_GOOD],
        [LOST_IN_TIME, *[HANG] * FOR_GOOD],
        [LOST, EXPIRED],
        [LOST, LIMIT],
    ],
    ids=lambda faults: " ".join(fault.name for fault in faults[:2]),
)
def test_a_fault_around_the_creation_makes_one_job_and_no_second(aws: Emulated, faults: list[Fault]) -> None:
    inject(aws.clients["sagemaker"], "CreateTrainingJob", *faults)
    plan = aws.plan_of()
    assert launch(aws.backend, plan) == plan.name
    assert names(aws.script) == [plan.name]
    assert entries() == []


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (EXPIRED, "aws sso login"),
        (DENIED, "AccessDenied"),
        (LIMIT, "Service Quotas"),
        (SKEWED, "clock"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_refusal_comes_at_once_and_nothing_is_created(aws: Emulated, fault: Fault, says: str) -> None:
    calls = inject(aws.clients["sagemaker"], "CreateTrainingJob", fault)
    with pytest.raises(AwsRefusal) as refusal:
        launch(aws.backend, aws.plan_of())
    assert says in str(refusal.value)
    assert (calls.calls, aws.script.requests, entries()) == (1, [], [])


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("fault", [THROTTLED, RESET, HANG, INTERNAL, EMPTY], ids=lambda fault: fault.name)
def test_a_call_that_never_succeeds_says_that_nothing_was_created_and_a_new_start_goes_on(
    aws: Emulated, fault: Fault
) -> None:
    faults = inject(aws.clients["sagemaker"], "CreateTrainingJob", *[fault] * FOR_GOOD)
    first = aws.plan_of()
    with pytest.raises(AwsRefusal, match=f"{first.name}: nothing was created"):
        launch(aws.backend, first)
    faults.ahead.clear()
    assert launch(aws.backend, aws.plan_of()) == first.name
    assert names(aws.script) == [first.name]


def test_a_job_that_cannot_be_seen_is_found_by_the_next_start(aws: Emulated) -> None:
    inject(aws.clients["sagemaker"], "CreateTrainingJob", LOST, EXPIRED)
    inject(aws.clients["sagemaker"], "DescribeTrainingJob", EXPIRED)
    first = aws.plan_of()
    with pytest.raises(UncertainError, match="cannot be seen") as error:
        launch(aws.backend, first)
    assert "no second" in error.value.remedy
    told: list[Progress] = []
    assert launch(aws.backend, aws.plan_of(), told.append) == first.name
    assert names(aws.script) == [first.name]
    assert f"its job {first.name} is InProgress" in told[0].step
    assert entries() == []


def test_another_job_of_the_name_is_no_success(aws: Emulated) -> None:
    launch(aws.backend, aws.plan_of("0unique"))
    with pytest.raises(NameTakenError, match="ResourceConfig") as error:
        launch(
            aws.backend,
            aws.plan_of("0unique", resources={"instance_type": "ml.p4d.24xlarge", "instance_count": 4}),
        )
    assert len(aws.script.requests) == 1
    assert "24xlarge" not in str(error.value)
    assert entries() == []


def test_the_same_job_under_the_same_name_is_ours(aws: Emulated) -> None:
    """A second process with the same name, as after a lost response."""
    assert launch(aws.backend, aws.plan_of("0unique")) == launch(aws.backend, aws.plan_of("0unique"))
    assert len(aws.script.requests) == 1


def test_a_tuning_job_is_created_and_looked_up_by_its_own_calls(aws: Emulated) -> None:
    sagemaker = aws.clients["sagemaker"]
    plan = replace(
        aws.plan_of("0unique"),
        operation="CreateHyperParameterTuningJob",
        request={
            "HyperParameterTuningJobName": "digits-0unique",
            "HyperParameterTuningJobConfig": {
                "Strategy": "Bayesian",
                "ResourceLimits": {"MaxParallelTrainingJobs": 1},
            },
        },
    )
    calls = inject(sagemaker, "CreateHyperParameterTuningJob", LOST)
    creation.create_once(sagemaker, plan.request or {}, plan.operation, job=plan.job)
    assert calls.calls == 2
    listed = sagemaker.list_hyper_parameter_tuning_jobs()["HyperParameterTuningJobSummaries"]
    assert [job["HyperParameterTuningJobName"] for job in listed] == ["digits-0unique"]


@pytest.mark.parametrize(
    ("sent", "told", "differing"),
    [
        ({"A": 1}, {"A": 1, "B": 2}, []),
        ({"A": 1, "Tags": []}, {"A": 1}, []),
        ({"A": {"x": 1}}, {"A": {"x": 1, "added": 2}}, []),
        ({"A": [{"x": "s3://b/p/"}]}, {"A": [{"x": "s3://b/p"}]}, []),
        ({"A": 1, "B": {"x": 1}}, {"A": 1, "B": {"x": 2}}, ["B"]),
        ({"A": [1]}, {"A": [1, 2]}, ["A"]),
    ],
)
def test_requests_are_compared_as_far_as_aws_tells_them(
    sent: dict[str, Any], told: dict[str, Any], differing: list[str]
) -> None:
    assert creation.differing_fields(sent, told) == differing


def test_launches_at_the_same_moment_get_names_and_prefixes_of_their_own(aws: Emulated) -> None:
    launch(aws.backend, aws.plan_of())
    aws.script.requests.clear()
    plans = [aws.plan_of() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        submitted = list(pool.map(lambda plan: launch(aws.backend, plan), plans))
    assert sorted(submitted) == sorted(names(aws.script)) == sorted({str(plan.name) for plan in plans})
    assert len({request["CheckpointConfig"]["S3Uri"] for request in aws.script.requests}) == 4


MODEL = get_session().get_service_model("sagemaker")
STATES = {*MODEL.shape_for("TrainingJobStatus").enum, *MODEL.shape_for("HyperParameterTuningJobStatus").enum}


def test_every_state_of_the_api_is_known_and_another_one_is_told_as_aws_told_it() -> None:
    assert all(isinstance(job_state(state), JobState) for state in STATES)
    with pytest.raises(AwsRefusal, match=r"AWS says that a job is 'Odd'"):
        job_state("Odd")


SESSION = "aws ssm start-session --region eu-west-1 --target sagemaker-training-job:digits-1_algo-1"
UPDATE = (
    "aws sagemaker update-training-job --region eu-west-1 --training-job-name digits-1 "
    "--remote-debug-config EnableRemoteDebug=true"
)
ON = {"RemoteDebugConfig": {"EnableRemoteDebug": True}}


def shell(phase: str = "Training", state: str = "InProgress", **more: Any) -> tuple[str, ...]:
    return status_of(
        {
            "TrainingJobName": "digits-1",
            "TrainingJobArn": "arn:aws:sagemaker:eu-west-1:111122223333:training-job/digits-1",
            "TrainingJobStatus": state,
            "SecondaryStatus": phase,
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
            **more,
        }
    ).shell


def test_a_shell_needs_one_command_and_an_update_where_the_job_was_created_without_it() -> None:
    assert shell(**ON) == (SESSION,)
    assert shell() == shell("Downloading") == (UPDATE, SESSION)


@pytest.mark.parametrize(
    ("phase", "state", "more"),
    [
        ("Starting", "InProgress", {}),
        ("Uploading", "InProgress", {}),
        ("Completed", "Completed", {}),
        ("Training", "InProgress", {"EnableNetworkIsolation": True}),
    ],
)
def test_there_is_no_way_into_what_does_not_run_or_is_isolated(
    phase: str, state: str, more: dict[str, Any]
) -> None:
    assert shell(phase, state, **ON, **more) == ()
