"""The live stage: the wait for Lustre, facts judged into the plan, and what a request names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.account.facts import FileSystem
from launcher.account.questions.ask import Wanted
from launcher.account.questions.ask_network import fetch_security_groups
from launcher.aws.clients import Clients
from launcher.cluster.traffic import Passage, efa_passage
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.jobs.load_job import LoadedJob
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.session import account_checks
from launcher.session.account_checks import (
    add_rules,
    check_before_submission,
    check_live,
    gather_subject,
    rules_to_add,
    wait_for_file_system,
    wanted_facts,
)
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.emulator.account import EmulatedAccount
from tests.emulator.faults import DENIED
from tests.emulator.faulty_clients import FaultyClients
from tests.rules.live.states import FILE_SYSTEM

WriteJob = Callable[..., Path]


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def wait(*lifecycles: str | None, bound: float = 60.0) -> tuple[str | None, Clock, list[tuple[str, float]]]:
    """Wait with these looks, the last of which stays; what was seen last, the clock, what was told."""
    clock, told, looks = Clock(), [], list(lifecycles)

    def seen() -> FileSystem | None:
        word = looks.pop(0) if len(looks) > 1 else looks[0]
        return None if word is None else replace(FILE_SYSTEM, lifecycle=word)

    last = wait_for_file_system(
        seen,
        on_wait=lambda each, seconds: told.append((each.lifecycle, seconds)),
        bound=bound,
        clock=clock,
        pause=clock.pause,
    )
    return (last.lifecycle if last else None), clock, told


def test_a_file_system_that_is_created_is_waited_for_with_progress() -> None:
    last, clock, told = wait("CREATING", "CREATING", "AVAILABLE")
    assert last == "AVAILABLE"
    assert clock.pauses == [15.0, 15.0]
    assert told == [("CREATING", 0.0), ("CREATING", 15.0)]


@pytest.mark.parametrize(
    "word",
    ["AVAILABLE", "UPDATING", "FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE", "DELETING", None],
)
def test_every_other_state_ends_the_wait_at_once(word: str | None) -> None:
    last, clock, told = wait(word)
    assert (last, clock.pauses, told) == (word, [], [])


def test_a_creation_that_fails_ends_the_wait() -> None:
    assert wait("CREATING", "FAILED")[0] == "FAILED"


def test_the_wait_is_bounded_to_the_second() -> None:
    last, clock, _ = wait("CREATING", bound=40.0)
    assert last == "CREATING"
    assert clock.pauses == [15.0, 15.0, 10.0]


Planned = Callable[..., tuple[TrainingPlan, LoadedJob]]


@pytest.fixture
def planned(account: EmulatedAccount, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch) -> Planned:
    """A job of the account's cluster with its plan; keyword arguments replace its fields."""
    monkeypatch.setattr(account_checks, "FILE_SYSTEM_POLL_SECONDS", 0.0)

    def plan(**fields: Any) -> tuple[TrainingPlan, LoadedJob]:
        given = {"cluster": "./dev.json", "framework": None, "image": account.image, **fields}
        file = write_job(**given)
        (file.parent / "dev.json").write_text(json.dumps(account.manifest()))
        loaded = read_job(JobSource(file))
        return prepare(loaded, session_region="us-west-2"), loaded

    return plan


def codes(plan: TrainingPlan) -> set[str]:
    return {each.code for each in plan.findings}


def test_a_sound_account_adds_no_finding(planned) -> None:
    plan, loaded = planned()
    assert check_live(plan, loaded, Clients()) == plan


def test_progress_is_told_to_the_last_answer(planned) -> None:
    told: list[tuple[int, int, str]] = []
    check_live(*planned(), Clients(), on_answer=lambda *progress: told.append(progress))
    assert told[-1][0] == told[-1][1] > 10


def test_what_is_wrong_in_the_account_refuses_the_plan(planned, account: EmulatedAccount) -> None:
    account.close_egress()
    checked = check_live(*planned(), Clients())
    assert checked.refused
    assert codes(checked) == {"EFA002"}


def test_accepted_codes_do_not_refuse(planned, account: EmulatedAccount) -> None:
    account.close_egress()
    by_file = check_live(*planned(ignore=["EFA002"]), Clients())
    by_option = check_live(*planned(), Clients(), ignore=["EFA002"])
    assert [(each.code, each.ignored) for each in by_file.findings] == [("EFA002", True)]
    assert by_option.findings[0].ignored
    assert not by_file.refused


def test_a_finding_stands_where_the_file_names_it_or_else_its_cluster(planned, account) -> None:
    account.close_egress()
    network = {"subnets": [account.ids["subnet"]], "security_group_ids": [account.ids["group"]]}
    for fields, place in (({}, ("cluster",)), ({"network": network}, ("network", "security_group_ids"))):
        plan, loaded = planned(**fields)
        (finding,) = check_live(plan, loaded, Clients()).findings
        assert finding.location == loaded.location(*place)
    assert finding.location != loaded.location("cluster")


def test_placeholders_are_refused_by_name(write_job: WriteJob) -> None:
    loaded = read_job(JobSource(write_job()))
    with pytest.raises(Refusal, match="role_arn, bucket"):
        check_live(prepare(loaded, session_region="us-west-2"), loaded, Clients())


def test_a_launch_waits_for_a_file_system_that_is_created(planned, account: EmulatedAccount) -> None:
    file_system = account.ids["file_system"]
    account.lifecycles[file_system] = "CREATING"
    told: list[str] = []

    def on_wait(seen: FileSystem, seconds: float) -> None:
        told.append(seen.lifecycle)
        account.lifecycles[file_system] = "AVAILABLE"

    checked = check_before_submission(
        *planned(inputs={"corpus": {"lustre": "/c"}}), Clients(), on_wait=on_wait
    )
    assert told == ["CREATING"]
    assert "FSX001" not in codes(checked)


def test_a_launch_does_not_wait_for_what_has_failed(planned, account: EmulatedAccount) -> None:
    account.lifecycles[account.ids["file_system"]] = "FAILED"
    told: list[Any] = []
    checked = check_before_submission(
        *planned(inputs={"corpus": {"lustre": "/c"}}), Clients(), on_wait=lambda *waited: told.append(waited)
    )
    assert told == []
    assert "FSX001" in codes(checked)
    assert checked.refused


def test_a_plan_that_is_refused_already_is_not_looked_at(planned) -> None:
    plan, loaded = planned(distribution={"strategy": "torchrun", "processes_per_host": 3})
    assert check_before_submission(plan, loaded, _no_clients) is plan


def _no_clients(service: str, *_: Any) -> Any:
    raise AssertionError(f"{service} was called")


def test_a_repair_adds_just_the_rules_and_only_once(planned, account: EmulatedAccount) -> None:
    _narrow_egress(account)
    missing = rules_to_add(gather_subject(*planned(), Clients()))
    group = account.ids["group"]

    first = add_rules(missing[group], "us-west-2", Clients())
    second = add_rules(missing[group], "us-west-2", Clients())

    assert list(missing) == [group]
    assert [added for _, added in first] == [True]
    assert [added for _, added in second] == [False]
    (held,) = fetch_security_groups(account.client("ec2"), [group])
    assert efa_passage(held, "egress") is Passage.OPEN
    assert len(held.towards("egress")) == 2


def test_accepted_findings_are_not_repaired(planned, account: EmulatedAccount) -> None:
    account.close_egress()
    assert rules_to_add(gather_subject(*planned(), Clients()), ["EFA002"]) == {}


def test_a_denied_repair_names_the_permission(planned, account: EmulatedAccount) -> None:
    account.close_egress()
    missing = rules_to_add(gather_subject(*planned(), Clients()))[account.ids["group"]]
    with pytest.raises(AwsRefusal, match="ec2:AuthorizeSecurityGroupEgress"):
        add_rules(missing, "us-west-2", FaultyClients(ec2__AuthorizeSecurityGroupEgress=DENIED))


def _narrow_egress(account: EmulatedAccount) -> None:
    """Egress over HTTPS alone: moto would drop a rule for a group beside all traffic to any address."""
    ec2, group = account.client("ec2"), account.ids["group"]
    anywhere = [{"CidrIp": "0.0.0.0/0"}]
    account.close_egress()
    ec2.revoke_security_group_egress(
        GroupId=group, IpPermissions=[{"IpProtocol": "-1", "IpRanges": anywhere}]
    )
    ec2.authorize_security_group_egress(
        GroupId=group,
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": anywhere}],
    )


def request(**changes: Any) -> dict[str, Any]:
    minimal = {
        "TrainingJobName": "digits-1",
        "RoleArn": "arn:aws-cn:iam::123456789012:role/training",
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 4},
        "OutputDataConfig": {"S3OutputPath": "s3://output/"},
    }
    return {**minimal, **changes}


def channel(name: str, uri: str) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}}


def wanted_of(**changes: Any) -> Wanted:
    return wanted_facts(RequestView(request(**changes)), "us-west-2")


def test_job_with_nothing_but_a_role_and_hosts() -> None:
    wanted = wanted_facts(RequestView(request()), "cn-north-1")

    assert (wanted.instance_type, wanted.instance_count) == ("ml.p5.48xlarge", 4)
    assert (wanted.partition, wanted.account) == ("aws-cn", "123456789012")
    assert (wanted.subnet_ids, wanted.file_system_id, wanted.image) == ((), None, None)
    assert wanted.buckets == ("output",)
    assert not (wanted.spot or wanted.warm_pool or wanted.training_plan)


def test_code_is_read_but_not_yet_there_to_be_looked_at() -> None:
    channels = [channel("train", "s3://data/a"), channel("code", "s3://code/digits-1")]

    wanted = wanted_of(InputDataConfig=channels)

    assert wanted.reads == ("s3://data/a", "s3://code/digits-1")
    assert wanted.looked_into == ("s3://data/a",)
    assert wanted.buckets == ("data", "code", "output")


@pytest.mark.parametrize("value", ['"s3://code/a.tar.gz"', "s3://code/a.tar.gz"])
def test_code_of_the_toolkits_is_a_hyperparameter(value: str) -> None:
    wanted = wanted_of(HyperParameters={"sagemaker_submit_directory": value})

    assert wanted.reads == ("s3://code/a.tar.gz",)


@pytest.mark.parametrize(
    "changes",
    [
        {"CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1"}},
        {"Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://checkpoints/digits-1"}},
    ],
)
def test_checkpoints_are_read_and_written(changes: dict[str, Any]) -> None:
    wanted = wanted_of(**changes)

    assert wanted.reads == wanted.looked_into == ("s3://checkpoints/digits-1",)
    assert wanted.writes == ("s3://checkpoints/digits-1", "s3://output/")


def test_capacity_and_keys_are_read() -> None:
    resources = {
        "InstanceType": "ml.g5.xlarge",
        "InstanceCount": 1,
        "KeepAlivePeriodInSeconds": 60,
        "VolumeKmsKeyId": "key-1",
        "TrainingPlanArn": "arn",
    }
    output = {"S3OutputPath": "s3://output/", "KmsKeyId": "key-2"}

    wanted = wanted_of(ResourceConfig=resources, OutputDataConfig=output, EnableManagedSpotTraining=True)

    assert (wanted.spot, wanted.warm_pool, wanted.training_plan) == (True, True, True)
    assert (wanted.volume_keys, wanted.output_keys) == (("key-1",), ("key-2",))
