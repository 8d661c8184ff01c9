"""A job and its further attempts: each new, linked to the first, and from the last checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import Backend, JobState, JobStatus
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.failure_modes.model import Retry
from launcher.jobs.load import LoadedJob, load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.attempts import FIRST_TAG, NUMBER_TAG, run_attempts
from launcher.session.outcome import Outcome
from launcher.session.preparation import prepare
from launcher.session.retry import GiveUp, TryAgain
from launcher.session.submission import Start, Started

P4D, P5 = "ml.p4d.24xlarge", "ml.p5.48xlarge"
WriteJob = Callable[..., Path]


@dataclass
class Cluster(Backend):
    """Where attempts end as they are told to: `endings` are (retry, step) in turn, then success."""

    name = "cluster"

    endings: list[tuple[Retry, float | None]]
    checkpoints: bool = True
    submitted: list[TrainingPlan] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    decisions: list[TryAgain | GiveUp] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    retries_itself: bool = False

    def submit(self, plan: TrainingPlan, on_progress: object = None) -> str:
        self.submitted.append(plan)
        return str(plan.name)

    def has_checkpoint(self, job_name: str) -> bool:
        return self.checkpoints

    def release_hosts(self, job_name: str) -> None:
        self.released.append(job_name)

    def describe(self, job_name: str) -> JobStatus:
        raise AssertionError("attempts are followed, not looked at")

    read_logs = stop = jobs = describe  # type: ignore[assignment]

    def follow(self, name: str) -> Outcome | None:
        if not self.endings:
            return Outcome(JobStatus(name, JobState.COMPLETED, "Completed"))
        retry, step = self.endings.pop(0)
        diagnosis = Diagnosis(Verdict.UNKNOWN, None, (), (), retry)
        return Outcome(JobStatus(name, JobState.FAILED, "Failed"), diagnosis, step)

    def run(self, loaded: LoadedJob, **changes: Any) -> Outcome | None:
        steps: dict[str, Any] = {"replan": planned, "follow": self.follow, "pause": self.waits.append}
        return run_attempts(
            loaded, planned(loaded), Start(self), display=_Display(self), **{**steps, **changes}
        )


@dataclass
class _Display:
    cluster: Cluster

    def started(self, job: Started) -> None:
        self.cluster.names.append(job.name)

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        self.cluster.decisions.append(decision)


def planned(loaded: LoadedJob) -> TrainingPlan:
    return prepare(loaded, session_region="us-west-2")


@pytest.fixture
def loaded(write_job: WriteJob) -> LoadedJob:
    return job_of(write_job)


def job_of(write_job: WriteJob, **changes: object) -> LoadedJob:
    given = {
        "limits": {"max_retries": 3},
        "checkpoint": {"s3_uri": "s3://team/checkpoints"},
        "role_arn": "arn:aws:iam::111122223333:role/training",
        "output": {"s3_uri": "s3://team/output"},
        "tags": {"team": "vision"},
    }
    return load_job(write_job(**{**given, **changes}))


def tags(plan: TrainingPlan) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in (plan.request or {})["Tags"]}


def test_a_job_that_completes_is_submitted_once(loaded: LoadedJob) -> None:
    cluster = Cluster([])
    outcome = cluster.run(loaded)
    assert outcome is not None and outcome.succeeded
    assert len(cluster.submitted) == 1
    assert cluster.decisions == []


def test_a_further_attempt_is_linked_to_the_first_and_resumes_from_the_last(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.OTHER_HOSTS, 100.0), (Retry.OTHER_HOSTS, 200.0)])
    outcome = cluster.run(loaded)
    assert outcome is not None and outcome.succeeded
    first, second, third = cluster.submitted
    assert tags(second) == {"team": "vision", FIRST_TAG: first.name, NUMBER_TAG: "2"}
    assert tags(third) == {"team": "vision", FIRST_TAG: first.name, NUMBER_TAG: "3"}
    assert second.job["checkpoint"]["resume_from"] == first.name
    assert third.job["checkpoint"]["resume_from"] == second.name


def test_every_attempt_has_a_name_and_a_prefix_of_its_own(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.SAME, 1.0), (Retry.SAME, 2.0)])
    cluster.run(loaded)
    prefixes = {(plan.request or {})["CheckpointConfig"]["S3Uri"] for plan in cluster.submitted}
    assert len({plan.name for plan in cluster.submitted}) == len(prefixes) == 3


def test_an_attempt_starts_anew_where_the_last_left_no_checkpoint(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.SAME, 5.0)], checkpoints=False)
    cluster.run(loaded)
    assert cluster.submitted[1].job["checkpoint"].get("resume_from") is None


def test_a_permanent_failure_is_the_end(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.NEVER, 7.0)])
    outcome = cluster.run(loaded)
    assert outcome is not None and outcome.status.state is JobState.FAILED
    assert len(cluster.submitted) == 1


def test_the_next_instance_type_is_planned_as_its_own(write_job: WriteJob) -> None:
    resources = {"instance_type": P4D, "instance_types": [P5], "instance_count": 2}
    cluster = Cluster([(Retry.LATER, None), (Retry.LATER, None)])
    cluster.run(job_of(write_job, resources=resources))
    types = [(plan.request or {})["ResourceConfig"]["InstanceType"] for plan in cluster.submitted]
    assert types == [P4D, P5, P4D]
    assert cluster.waits == [0.0, 300.0]


def test_types_from_which_the_service_chooses_are_in_every_attempt(write_job: WriteJob) -> None:
    resources = {
        "instance_type": P5,
        "instance_types": ["ml.p5e.48xlarge"],
        "instance_choice": "service",
        "instance_count": 2,
    }
    cluster = Cluster([(Retry.LATER, None)])
    cluster.run(job_of(write_job, resources=resources))
    types = [plan.view.instance_types for plan in cluster.submitted if plan.view]
    assert types == [(P5, "ml.p5e.48xlarge")] * 2
    assert cluster.waits == [300.0]
    assert "ml.p5.48xlarge and ml.p5e.48xlarge" in cluster.decisions[0].why


@pytest.mark.parametrize(
    ("retry", "given", "checked"),
    [
        (Retry.OTHER_HOSTS, {}, [False, True]),
        (Retry.SAME, {}, [False, False]),
        (Retry.OTHER_HOSTS, {"infra_check": False}, [False, False]),
        (Retry.SAME, {"infra_check": True}, [True, True]),
    ],
    ids=["after a fault of the hosts", "after another", "declined in the file", "asked for"],
)
def test_aws_tests_the_hosts_of_an_attempt_after_hosts_that_failed(
    write_job: WriteJob, retry: Retry, given: dict[str, bool], checked: list[bool]
) -> None:
    cluster = Cluster([(retry, 1.0)])
    cluster.run(job_of(write_job, resources={"instance_type": P4D, "instance_count": 2, **given}))
    views = [plan.view for plan in cluster.submitted]
    assert [view.options.checks_hosts for view in views if view] == checked


@pytest.mark.parametrize(
    ("retry", "keep_alive", "released"),
    [(Retry.OTHER_HOSTS, "30m", True), (Retry.SAME, "30m", False), (Retry.OTHER_HOSTS, None, False)],
    ids=["hosts at fault in a warm pool", "hosts that are well", "no warm pool"],
)
def test_hosts_at_fault_are_not_kept_for_the_next_attempt(
    write_job: WriteJob, retry: Retry, keep_alive: str | None, released: bool
) -> None:
    resources = {"instance_type": P4D, "instance_count": 2}
    if keep_alive:
        resources["keep_alive"] = keep_alive
    cluster = Cluster([(retry, 1.0)])
    cluster.run(job_of(write_job, resources=resources))
    assert cluster.released == ([cluster.names[0]] if released else [])


def test_a_queue_that_tries_again_itself_gets_one_submission(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.SAME, 1.0)], retries_itself=True)
    cluster.run(loaded)
    assert len(cluster.submitted) == 1


def test_an_attempt_that_the_account_refuses_ends_it_with_the_reason(loaded: LoadedJob) -> None:
    cluster = Cluster([(Retry.SAME, 1.0)])
    refused = replace(planned(loaded), request=None)
    outcome = cluster.run(loaded, replan=lambda loaded: refused)
    assert outcome is not None and outcome.status.state is JobState.FAILED
    assert isinstance(cluster.decisions[-1], GiveUp)
    assert "cannot be launched" in cluster.decisions[-1].why


def test_a_job_that_the_user_left_is_not_tried_again(loaded: LoadedJob) -> None:
    cluster = Cluster([])
    assert cluster.run(loaded, follow=lambda name: None) is None
    assert len(cluster.submitted) == 1
