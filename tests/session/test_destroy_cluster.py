"""What happens while a cluster is destroyed: late writes, kills, and what stays locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from launcher.aws.clients import Clients
from launcher.failure_modes.model import AwsRefusal
from launcher.session.destroy_cluster import (
    Aftermath,
    ClusterJob,
    Survey,
    collect_leftovers,
    destroy,
    survey_cluster,
)
from tests.emulator.account import use_test_keys
from tests.emulator.batch import EmulatedQueue
from tests.emulator.buckets import emulated_buckets
from tests.emulator.running_jobs import emulated_search
from tests.session.deployed import REGION, client, deploy, stack_of
from tests.stacks.synthesis import dev_spec, synthesize

CLUSTER = "dev"


@pytest.fixture(autouse=True)
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_test_keys(monkeypatch)
    with mock_aws(), emulated_search([]), emulated_buckets():
        deploy(synthesize(dev_spec(removal_policy="destroy")), CLUSTER)
        yield


def run(tell: Callable[[str], None] = lambda _: None) -> Aftermath:
    clients = Clients()
    return destroy(look(clients), clients, tell=tell, sleep=lambda _: None)


def look(clients: Clients) -> Survey:
    return survey_cluster(CLUSTER, clients, REGION)


def bucket(purpose: str) -> str:
    resources = stack_of("slipway-dev-storage").resources
    (found,) = [each for name, each in resources.items() if name.startswith(f"Buckets{purpose}")
                and "Policy" not in name]  # fmt: skip
    return found.physical_id


def standing() -> list[str]:
    listed = client("cloudformation").describe_stacks()["Stacks"]
    return [each["StackName"] for each in listed if each["StackStatus"] != "DELETE_COMPLETE"]


def test_a_log_that_comes_after_the_bucket_was_emptied_is_refused() -> None:
    logs, refused = bucket("AccessLogs"), []

    def deliver(told: str) -> None:
        if told == f"emptied {logs}":
            try:
                client("s3").put_object(Bucket=logs, Key="late", Body=b"log")
            except Exception as error:
                refused.append(str(error))

    run(deliver)
    (said,) = refused
    assert "AccessDenied" in said or "403" in said
    assert standing() == []


def test_no_bucket_has_its_accesses_logged_any_more_when_it_is_emptied() -> None:
    code, seen = bucket("Code"), []

    def watch(told: str) -> None:
        if told == f"emptied {code}":
            seen.append(client("s3").get_bucket_logging(Bucket=code).get("LoggingEnabled"))

    run(watch)
    assert seen == [None]


def test_a_bucket_that_is_written_into_meanwhile_is_emptied_again() -> None:
    output, told = bucket("Output"), []

    def write_once(text: str) -> None:
        if text == "deleting slipway-dev-storage" and text not in told:
            client("s3").put_object(Bucket=output, Key="late", Body=b"result")
        told.append(text)

    run(write_once)
    assert told.count("deleting slipway-dev-storage") == 2
    assert "slipway-dev-storage: a bucket was written into meanwhile; emptying it again" in told
    assert standing() == []


def test_one_that_is_written_into_for_ever_is_given_up_and_named() -> None:
    output, told = bucket("Output"), []

    def write(text: str) -> None:
        told.append(text)
        if text == "deleting slipway-dev-storage":
            client("s3").put_object(Bucket=output, Key="late", Body=b"result")

    with pytest.raises(AwsRefusal, match=f"AWS::S3::Bucket {output}: .*not empty"):
        run(write)
    assert told.count("deleting slipway-dev-storage") == 3
    assert standing() == ["slipway-dev-network", "slipway-dev-storage"]


class Killed(Exception):
    pass


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize("after", ["deleted slipway-dev-access", "emptied", "deleting slipway-dev-storage",
                                   "deleted slipway-dev-storage"])  # fmt: skip
def test_killed_in_the_middle_it_goes_on_where_it_stopped(after: str) -> None:
    client("s3").put_object(Bucket=bucket("Output"), Key="model", Body=b"result")

    def kill(text: str) -> None:
        if text.startswith(after):
            raise Killed

    with pytest.raises(Killed):
        run(kill)
    assert "slipway-dev-network" in standing()
    assert run() == Aftermath()
    assert standing() == []


def test_killed_before_the_last_step_the_logs_of_functions_still_go() -> None:
    functions = look(Clients()).functions
    groups = [f"/aws/lambda/{each}" for each in functions]

    def kill(text: str) -> None:
        if text == "deleted slipway-dev-network":
            raise Killed

    with pytest.raises(Killed):
        run(kill)
    for group in groups:
        if not client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            client("logs").create_log_group(logGroupName=group)
    clients = Clients()
    survey = look(clients)
    assert survey.stacks == () and groups
    collect_leftovers(survey, clients, lambda _: None)
    assert client("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/")["logGroups"] == []


@pytest.mark.parametrize("when", ["by the deleted stack", "by an earlier update"])
def test_what_was_kept_is_known_and_not_left_over(when: str) -> None:
    topic = client("sns").create_topic(Name="kept", Tags=[{"Key": "slipway:cluster", "Value": CLUSTER}])
    network, kept, clients = stack_of("slipway-dev-network"), Aftermath(kept=(topic["TopicArn"],)), Clients()
    if when == "by the deleted stack":
        run()
    network.tell("Topic", "AWS::SNS::Topic", topic["TopicArn"], "DELETE_SKIPPED")
    if when == "by the deleted stack":
        assert collect_leftovers(look(clients), clients, lambda _: None) == kept
    else:
        assert run() == kept


def test_tags_that_may_not_be_read_are_told_and_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AwsRefusal("AWS refused to look: AccessDenied.", "Ask for tag:GetResources.")

    monkeypatch.setattr("launcher.session.destroy_cluster.fetch_tagged", refused)
    assert run() == Aftermath(unseen="AWS refused to look: AccessDenied. Ask for tag:GetResources.")
    assert standing() == []


def test_a_job_that_waits_in_the_queue_has_not_ended() -> None:
    deploy(synthesize(dev_spec(name="queued", removal_policy="destroy", queue={})), "queued")
    resources = stack_of("slipway-queued-queue").resources.values()
    (arn,) = [each.physical_id for each in resources if ":job-queue/" in each.physical_id]
    clients = Clients()
    batch = EmulatedQueue(arn, client("sagemaker"), room=False).attach(clients("batch", REGION))
    batch.submit_service_job(
        jobName="waits",
        jobQueue=arn,
        serviceJobType="SAGEMAKER_TRAINING",
        serviceRequestPayload="{}",
        clientToken="waits",
    )
    assert survey_cluster("queued", clients, REGION).jobs == (ClusterJob("waits", "queued"),)
