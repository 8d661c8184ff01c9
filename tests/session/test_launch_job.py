"""The way of a launch on AWS, its further attempts, and whether there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.account.facts import FileSystem
from launcher.aws.clients import BRISK, PATIENT, CallSettings, Clients
from launcher.backends.interface import Backend, JobState, JobStatus, Polling
from launcher.cluster.manifest import Cluster, cache_manifest, cached_manifest
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.failure_modes.model import Refusal, Retry
from launcher.jobs.load_job import LoadedJob, load_job
from launcher.planning.next_attempt import (
    ATTEMPTS_WITHOUT_PROGRESS,
    FIRST_TAG,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    NUMBER_TAG,
    Attempt,
    GiveUp,
    TryAgain,
    after_failure,
)
from launcher.planning.training_plan import TrainingPlan
from launcher.session.launch_job import Launch, plan_for_submission, run_attempts
from launcher.session.prepare_plan import JobSource, prepare, read_job
from launcher.session.runs.diagnose_job import Outcome, outcome_of
from launcher.session.submit_job import Start, Started
from launcher.source.tree import SourceTree
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"
WriteJob = Callable[..., Path]


class CountedClients(Clients):
    """Clients that count the calls of each operation, and how often each client was made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.makes: Counter[tuple[str, CallSettings]] = Counter()

    def _make(self, service: str, region: str | None, settings: CallSettings) -> Any:
        self.makes[service, settings] += 1
        client = super()._make(service, region, settings)
        client.meta.events.register("before-call.*.*", self._count)
        return client

    def _count(self, event_name: str, **_: Any) -> None:
        self.calls[event_name.partition(".")[2]] += 1


class Shown:
    """What a launch shows of its look into the account and of its attempts."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.names: list[str] = []

    @contextmanager
    def opened(self) -> Iterator[Shown]:
        yield self

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        self.answers.append(answered)

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        raise AssertionError("the file system is there")

    def started(self, job: Started) -> None:
        self.names.append(job.name)

    def decided(self, outcome: Outcome, decision: object) -> None:
        pass


@pytest.fixture
def account(account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch) -> EmulatedAccount:
    """An emulated account with the cluster `dev`."""
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    manifest = Cluster.model_validate(account.manifest()).model_dump_json()
    account.client("ssm").put_parameter(Name="/slipway/clusters/dev", Value=manifest, Type="String")
    return account


@pytest.fixture
def script(account: EmulatedAccount) -> Iterator[TrainingScript]:
    with emulated_training(TrainingScript()) as script:
        yield script


def test_a_launch_asks_once_who_it_is_and_makes_each_client_once(
    write_job: WriteJob, script: TrainingScript
) -> None:
    clients, shown = CountedClients(), Shown()
    launch = Launch(read_job(JobSource(write_job(cluster="dev"))), clients, REGION, display=shown.opened)
    plan = launch.plan()
    submission = launch.submission(plan)
    backend = submission.backend

    def follow(name: str) -> Outcome:
        status = backend.describe(name)
        while not status.state.is_final:
            status = backend.describe(name)
        return outcome_of(backend, status)

    outcome = launch.run(plan, submission.start, follow=follow, display=shown)

    assert outcome is not None and outcome.status.state is JobState.COMPLETED
    assert submission.account == "123456789012"
    assert [request["TrainingJobName"] for request in script.requests] == shown.names == [plan.name]
    assert shown.answers[-1] > 10
    assert clients.calls["sts.GetCallerIdentity"] == 1
    assert set(clients.makes.values()) == {1}
    both = {service for service, settings in clients.makes if settings == PATIENT} & {
        service for service, settings in clients.makes if settings == BRISK
    }
    assert both == {"sagemaker", "s3"}, "one service has two clients only where it is called in two ways"


def test_code_on_s3_is_read_by_a_submission(write_job: WriteJob, script: TrainingScript) -> None:
    uri = "s3://nobodys-bucket/source.tar.gz"
    clients = CountedClients()
    file = write_job(cluster="dev", code={"source_dir": uri, "entry_point": "train.py"})
    plan = plan_for_submission(read_job(JobSource(file)), clients, session_region=REGION)
    assert clients.calls["s3.GetObject"] == 1
    assert f"the source archive {uri} is not there" in [each.message for each in plan.findings]


def test_code_on_s3_is_not_read_for_a_file_that_is_refused_without(write_job: WriteJob) -> None:
    clients = CountedClients()
    code = {"source_dir": "s3://nobodys-bucket/source.tar.gz", "entry_point": "train.py"}
    file = write_job(code=code, resources={"instance_type": "ml.p9.huge", "instance_count": 1})
    plan = plan_for_submission(read_job(JobSource(file)), clients, session_region=REGION)
    assert plan.refused
    # There is no cluster of which anything could be said.
    assert not [finding for finding in plan.findings if finding.path == ("cluster",)]
    assert clients.calls == Counter()


def test_a_plan_that_its_file_refuses_asks_nothing_of_aws(write_job: WriteJob) -> None:
    clients = CountedClients()
    file = write_job(cluster="dev", code={"source_dir": "src", "entry_point": "no.py"})
    plan = Launch(read_job(JobSource(file)), clients, REGION).plan()

    assert plan.refused
    assert (clients.makes, clients.calls) == ({}, {})


def stale_and_fresh(account: EmulatedAccount) -> tuple[Cluster, Cluster]:
    """A cluster as it was last read, its file system in another zone than its subnets, and as it is now."""
    now = Cluster.model_validate(account.manifest())
    assert now.lustre is not None
    before = now.lustre.model_copy(update={"availability_zone": "us-west-2d"})
    return now.model_copy(update={"lustre": before}), now


def test_what_was_kept_of_a_cluster_never_refuses_a_launch(
    write_job: WriteJob, account: EmulatedAccount
) -> None:
    stale, now = stale_and_fresh(account)
    cache_manifest(stale)
    loaded = read_job(JobSource(write_job(cluster="dev", inputs={"corpus": {"lustre": "/train"}})))
    assert "FSX002" in {found.code for found in prepare(loaded, session_region=REGION).findings}

    plan = plan_for_submission(loaded, Clients(), session_region=REGION)

    assert "FSX002" not in {found.code for found in plan.findings}
    assert not plan.refused and not plan.placeholders
    assert cached_manifest("dev") == now


@pytest.mark.parametrize("kept", ["truncated", "a folder", "nothing, in a place that is a file"])
def test_a_launch_needs_nothing_of_what_is_kept(
    write_job: WriteJob, account: EmulatedAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    if kept == "truncated":
        (home / "slipway" / "clusters").mkdir(parents=True)
        (home / "slipway" / "clusters" / "dev.json").write_text('{"name": "de')
    elif kept == "a folder":
        (home / "slipway" / "clusters" / "dev.json").mkdir(parents=True)
    else:
        home.touch()
    loaded = read_job(JobSource(write_job(cluster="dev")))

    plan = plan_for_submission(loaded, Clients(), session_region=REGION)

    assert not plan.refused and not plan.placeholders
    said = [found.message for found in plan.findings if found.subject == "cluster"]
    assert ["cannot be kept" in message for message in said] == ([] if kept == "truncated" else [True])
    assert not list(tmp_path.rglob("*.new"))


def test_a_queue_is_asked_of_the_cluster(write_job: WriteJob, script: TrainingScript) -> None:
    launch = Launch(read_job(JobSource(write_job(cluster="dev"))), Clients(), REGION, queued=True)

    with pytest.raises(Refusal, match="the cluster dev has no queue"):
        launch.submission(launch.plan())


P4D, P5 = "ml.p4d.24xlarge", "ml.p5.48xlarge"


@dataclass
class ScriptedCluster(Backend):
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
    billable_seconds: float | None = None

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
        status = JobStatus(name, JobState.FAILED, "Failed", billable_seconds=self.billable_seconds)
        return Outcome(status, diagnosis, step)

    def run(self, loaded: LoadedJob, **changes: Any) -> Outcome | None:
        steps: dict[str, Any] = {"replan": planned, "follow": self.follow, "pause": self.waits.append}
        return run_attempts(
            loaded, planned(loaded), Start(self), display=_Display(self), **{**steps, **changes}
        )


@dataclass
class _Display:
    cluster: ScriptedCluster

    def started(self, job: Started) -> None:
        self.cluster.names.append(job.name)

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        self.cluster.decisions.append(decision)


def planned(loaded: LoadedJob, source: SourceTree | None = None) -> TrainingPlan:
    return prepare(loaded, session_region="us-west-2", source=source)


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
    cluster = ScriptedCluster([])
    outcome = cluster.run(loaded)
    assert outcome is not None and outcome.succeeded
    assert len(cluster.submitted) == 1
    assert cluster.decisions == []


def test_after_a_permanent_failure_of_a_queue_that_repeats_itself_or_left_by_the_user_there_is_no_other(
    loaded: LoadedJob,
) -> None:
    permanent = ScriptedCluster([(Retry.NEVER, 7.0)])
    outcome = permanent.run(loaded)
    assert outcome is not None and outcome.status.state is JobState.FAILED
    queue, left = ScriptedCluster([(Retry.SAME, 1.0)], retries_itself=True), ScriptedCluster([])
    queue.run(loaded)
    assert left.run(loaded, follow=lambda name: None) is None
    assert [len(each.submitted) for each in (permanent, queue, left)] == [1, 1, 1]


def test_a_further_attempt_is_linked_to_the_first_and_resumes_from_the_last(loaded: LoadedJob) -> None:
    cluster = ScriptedCluster([(Retry.OTHER_HOSTS, 100.0), (Retry.OTHER_HOSTS, 200.0)])
    outcome = cluster.run(loaded)
    assert outcome is not None and outcome.succeeded
    first, second, third = cluster.submitted
    assert tags(second) == {"team": "vision", FIRST_TAG: first.name, NUMBER_TAG: "2"}
    assert tags(third) == {"team": "vision", FIRST_TAG: first.name, NUMBER_TAG: "3"}
    assert second.job["checkpoint"]["resume_from"] == first.name
    assert third.job["checkpoint"]["resume_from"] == second.name
    # Each has a name and a prefix of its own.
    prefixes = {(plan.request or {})["CheckpointConfig"]["S3Uri"] for plan in cluster.submitted}
    assert len({first.name, second.name, third.name}) == len(prefixes) == 3


def run_on_a_budget(write_job: WriteJob, billable_seconds: float | None) -> ScriptedCluster:
    """Attempts on two hosts of 63.30 USD an hour, with 300 USD in all, that fail after so many seconds."""
    cluster = ScriptedCluster(
        [(Retry.SAME, 10.0 * n) for n in range(1, 9)], billable_seconds=billable_seconds
    )
    resources = {"instance_type": P5, "instance_count": 2}
    cluster.run(
        job_of(write_job, region="us-east-1", resources=resources, limits={"max_retries": 3, "max_usd": 300})
    )
    return cluster


def test_each_attempt_may_run_for_what_is_left_of_the_budget(write_job: WriteJob) -> None:
    cluster = run_on_a_budget(write_job, 3600.0)
    limits = [plan.view.max_runtime_seconds for plan in cluster.submitted if plan.view]
    assert limits == [8531, 4931, 1331]
    last = cluster.decisions[-1]
    assert isinstance(last, GiveUp)
    assert last.why == "limits.max_usd is used up: the attempts so far cost 379.78 USD"


def test_nothing_is_tried_again_on_a_budget_of_which_nobody_knows_what_is_left(write_job: WriteJob) -> None:
    cluster = run_on_a_budget(write_job, None)
    assert len(cluster.submitted) == 1
    assert "is not known" in cluster.decisions[-1].why


def test_an_attempt_starts_anew_where_the_last_left_no_checkpoint(loaded: LoadedJob) -> None:
    cluster = ScriptedCluster([(Retry.SAME, 5.0)], checkpoints=False)
    cluster.run(loaded)
    assert cluster.submitted[1].job["checkpoint"].get("resume_from") is None


def test_the_next_instance_type_is_planned_as_its_own(write_job: WriteJob) -> None:
    resources = {"instance_type": P4D, "instance_types": [P5], "instance_count": 2}
    cluster = ScriptedCluster([(Retry.LATER, None), (Retry.LATER, None)])
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
    cluster = ScriptedCluster([(Retry.LATER, None)])
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
    cluster = ScriptedCluster([(retry, 1.0)])
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
    cluster = ScriptedCluster([(retry, 1.0)])
    cluster.run(job_of(write_job, resources=resources))
    assert cluster.released == ([cluster.names[0]] if released else [])


def test_an_attempt_that_the_account_refuses_ends_it_with_the_reason(loaded: LoadedJob) -> None:
    cluster = ScriptedCluster([(Retry.SAME, 1.0)])
    refused = replace(planned(loaded), request=None)
    outcome = cluster.run(loaded, replan=lambda loaded, source: refused)
    assert outcome is not None and outcome.status.state is JobState.FAILED
    assert isinstance(cluster.decisions[-1], GiveUp)
    assert "cannot be launched" in cluster.decisions[-1].why


def attempt(retry: Retry = Retry.SAME, step: float | None = None, instance_type: str = P4D) -> Attempt:
    return Attempt("job", instance_type, retry, step)


def steps(*reached: float) -> list[Attempt]:
    return [attempt(step=step) for step in reached]


def next_of(*attempts: Attempt, max_retries: int = 3, types: Sequence[str] = (P4D,)) -> TryAgain | GiveUp:
    return after_failure(attempts, max_retries=max_retries, instance_types=types)


GETS_NO_FURTHER = "2 attempts in a row got no further"
LATER, ON_P5 = attempt(Retry.LATER), attempt(Retry.LATER, instance_type=P5)
BOTH_TYPES: dict[str, Any] = {"types": (P4D, P5)}
OFTEN, ONCE = {"max_retries": 30}, {"max_retries": 1}
DECISIONS: dict[str, tuple[list[Attempt], dict[str, Any], GiveUp | type[TryAgain] | TryAgain | float]] = {
    "a permanent cause": ([attempt(Retry.NEVER)], {}, GiveUp("the cause does not pass by itself")),
    "no budget": ([attempt()], {"max_retries": 0}, GiveUp("limits.max_retries is 0")),
    "an attempt without a step, in the budget": ([attempt()], ONCE, TryAgain),
    "as many as the budget": ([LATER] * 2, ONCE, GiveUp("limits.max_retries (1) is used up")),
    "each got further": ([attempt(step=step) for step in range(100, 1100, 100)], ONCE, TryAgain),
    "one without progress": (steps(500, 500), OFTEN, TryAgain),
    "two without progress": (steps(500, 500, 480), OFTEN, GiveUp(GETS_NO_FURTHER)),
    "progress starts the count anew": (steps(500, 500, 600, 600), OFTEN, TryAgain),
    "waits for capacity between": ([*steps(500), LATER, LATER, *steps(500)], OFTEN, TryAgain),
    "the next type comes at once": (
        [LATER], BOTH_TYPES, TryAgain(P5, 0.0, f"there is no capacity for {P4D}"),
    ),
    "after the last type the first is waited for": (
        [LATER, ON_P5], BOTH_TYPES,
        TryAgain(P4D, FIRST_WAIT_SECONDS, f"there is no capacity for {P4D} and {P5}"),
    ),
    **{
        f"the wait doubles up to an hour: {rounds} rounds": ([LATER] * rounds, OFTEN, seconds)
        for rounds, seconds in ((1, 300.0), (2, 600.0), (3, 1200.0), (4, 2400.0), (5, 3600.0), (9, 3600.0))
    },
    "an attempt with hosts starts the wait anew": (
        [*[LATER] * 4, *steps(10), LATER], OFTEN, FIRST_WAIT_SECONDS,
    ),
    "tried again at once on the same type": ([attempt(Retry.SAME)], {}, 0.0),
    "and on other hosts": ([attempt(Retry.OTHER_HOSTS)], {}, 0.0),
}  # fmt: skip
"""What came before, with what budget, and what follows: a decision, its kind, or the first type's wait."""


@pytest.mark.parametrize(("came", "given", "expected"), DECISIONS.values(), ids=DECISIONS)
def test_what_follows_a_failure(came: list[Attempt], given: dict[str, Any], expected: Any) -> None:
    decided = next_of(*came, **given)
    if isinstance(expected, type):
        assert isinstance(decided, expected)
    elif isinstance(expected, float):
        assert isinstance(decided, TryAgain)
        assert (decided.instance_type, decided.wait_seconds) == (P4D, expected)
    else:
        assert decided == expected


@pytest.mark.parametrize(
    ("failed", "checked"),
    [
        (Attempt("job", P4D, Retry.OTHER_HOSTS, None, "HW001"), True),
        (Attempt("job", P4D, Retry.OTHER_HOSTS), True),
        (Attempt("job", P4D, Retry.SAME, None, "EFA007"), True),
        (Attempt("job", P4D, Retry.SAME, None, "NCCL007"), True),
        (Attempt("job", P4D, Retry.SAME, None, "NCCL008"), False),
        (Attempt("job", P4D, Retry.LATER, None, "CAP001"), False),
        (Attempt("job", P4D, Retry.SAME), False),
    ],
)
def test_after_a_fault_of_the_hosts_the_next_ones_are_tested_first(failed: Attempt, checked: bool) -> None:
    again = next_of(failed)
    assert isinstance(again, TryAgain)
    assert again.infra_check is checked
    assert ("health check" in again.why) is checked


def test_hosts_are_tested_in_all_attempts_after_one_that_they_failed() -> None:
    later = next_of(attempt(Retry.OTHER_HOSTS, 1.0), attempt(Retry.LATER))
    assert isinstance(later, TryAgain)
    assert later.infra_check


def test_hosts_are_not_tested_where_that_was_declined() -> None:
    again = after_failure(
        [attempt(Retry.OTHER_HOSTS)], max_retries=1, instance_types=[P4D], may_check_hosts=False
    )
    assert again == TryAgain(P4D, 0.0, "on other hosts")


attempts = st.lists(
    st.builds(
        Attempt,
        name=st.just("job"),
        instance_type=st.sampled_from([P4D, P5]),
        retry=st.sampled_from(list(Retry)),
        step=st.none() | st.integers(0, 5).map(float),
    ),
    min_size=1,
    max_size=12,
)


@given(attempts=attempts, max_retries=st.integers(0, 5))
def test_retries_are_bounded_and_keep_to_the_types_that_are_allowed(
    attempts: list[Attempt], max_retries: int
) -> None:
    again = after_failure(attempts, max_retries=max_retries, instance_types=[P4D, P5])
    if isinstance(again, TryAgain):
        assert again.instance_type in (P4D, P5)
        assert 0 <= again.wait_seconds <= LONGEST_WAIT_SECONDS
        assert attempts[-1].retry is not Retry.NEVER
        # Steps 0 to 5 allow six advances; beyond these only the budget is left.
        assert len(attempts) <= max_retries + 6
        ran = [each.step for each in attempts if each.retry is not Retry.LATER]
        assert not (len(ran) > ATTEMPTS_WITHOUT_PROGRESS and set(ran) == {None})
