"""The way of a launch on AWS: what it asks of AWS, and that it stops where it must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.account.file_system import FileSystem
from launcher.aws.clients import BRISK, PATIENT, CallSettings, Clients
from launcher.backends.interface import Backend, JobState, Polling
from launcher.cluster.manifest import Cluster
from launcher.cluster.manifest_store import cache_manifest, cached_manifest
from launcher.failure_modes.refusal import Refusal
from launcher.session.launching import Launch, plan_for_submission
from launcher.session.outcome import Outcome, outcome_of
from launcher.session.preparation import JobSource, prepare, read_job
from launcher.session.submission import Started
from tests.emulator.account import EmulatedAccount, emulated_account
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
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    """An emulated account with the cluster `dev`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    with emulated_account() as account:
        account.client("ssm").put_parameter(
            Name="/slipway/clusters/dev",
            Value=Cluster.model_validate(account.manifest()).model_dump_json(),
            Type="String",
        )
        yield account


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
