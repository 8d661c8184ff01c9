"""What wakes the controller of managed runs up, what becomes of events that it fails at, and who is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stacks.synthesis import Synthesized, cluster, dev_spec, resources_of, synthesize

OF_THE_STACK = {
    "AWS::CloudWatch::Alarm": 2,
    "AWS::Events::Rule": 1,
    "AWS::IAM::Role": 2,
    "AWS::Lambda::EventSourceMapping": 1,
    "AWS::Lambda::Function": 1,
    "AWS::Logs::LogGroup": 1,
    "AWS::SQS::Queue": 2,
    "AWS::SQS::QueuePolicy": 2,
    "AWS::Scheduler::ScheduleGroup": 1,
}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return cluster("p5-large").template("managed")


@pytest.fixture(scope="module")
def unwatched() -> Synthesized:
    return synthesize(dev_spec(managed=True))


def properties(template: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in resources_of(template, type_).values()]


def only(template: dict[str, Any], type_: str) -> dict[str, Any]:
    (found,) = properties(template, type_)
    return found


def queue(template: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    queues = resources_of(template, "AWS::SQS::Queue").items()
    ((id_, found),) = [(id_, each["Properties"]) for id_, each in queues if id_.startswith(f"Runs{name}")]
    return id_, found


def statements(template: dict[str, Any], of: str) -> list[dict[str, Any]]:
    """The statements of the policy of a queue."""
    (found,) = [
        each["PolicyDocument"]["Statement"]
        for each in properties(template, "AWS::SQS::QueuePolicy")
        if each["Queues"] == [{"Ref": of}]
    ]
    return list(found)


def test_there_is_nothing_else_in_the_stack(template: dict[str, Any]) -> None:
    found = [each["Type"] for each in template["Resources"].values()]

    assert {type_: found.count(type_) for type_ in found} == OF_THE_STACK


def test_the_end_of_a_job_of_this_cluster_goes_into_the_queue(template: dict[str, Any]) -> None:
    rule = only(template, "AWS::Events::Rule")
    events, _ = queue(template, "Events")
    failed, _ = queue(template, "Failed")

    assert rule["EventPattern"]["source"] == ["aws.sagemaker"]
    assert rule["EventPattern"]["detail-type"] == ["SageMaker Training Job State Change"]
    assert set(rule["EventPattern"]["detail"]["TrainingJobStatus"]) == {"Completed", "Failed", "Stopped"}
    assert "WeakTrainingRole" in json.dumps(rule["EventPattern"]["detail"]["RoleArn"])
    (target,) = rule["Targets"]
    assert target["Arn"] == {"Fn::GetAtt": [events, "Arn"]}
    assert target["DeadLetterConfig"]["Arn"] == {"Fn::GetAtt": [failed, "Arn"]}


def test_an_event_is_tried_five_times_and_then_kept_for_two_weeks(template: dict[str, Any]) -> None:
    _, events = queue(template, "Events")
    failed, given_up = queue(template, "Failed")

    assert events["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [failed, "Arn"]},
        "maxReceiveCount": 5,
    }
    assert given_up["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_an_event_is_hidden_for_six_times_as_long_as_the_function_may_run(template: dict[str, Any]) -> None:
    _, events = queue(template, "Events")

    assert only(template, "AWS::Lambda::Function")["Timeout"] == 900
    assert events["VisibilityTimeout"] == 6 * 900


@pytest.mark.parametrize("name", ["Events", "Failed"])
def test_queues_are_encrypted_and_refuse_plain_http(template: dict[str, Any], name: str) -> None:
    id_, found = queue(template, name)
    denied = [each for each in statements(template, id_) if each["Effect"] == "Deny"]

    assert found["SqsManagedSseEnabled"] is True
    assert [each["Condition"] for each in denied] == [{"Bool": {"aws:SecureTransport": "false"}}]


@pytest.mark.parametrize("name", ["Events", "Failed"])
def test_only_the_rule_is_let_into_a_queue_by_its_policy(template: dict[str, Any], name: str) -> None:
    id_, _ = queue(template, name)
    (rule,) = resources_of(template, "AWS::Events::Rule")
    let_in = [each for each in statements(template, id_) if each["Effect"] == "Allow"]

    assert let_in
    for each in let_in:
        assert each["Principal"] == {"Service": "events.amazonaws.com"}
        assert each["Condition"]["ArnEquals"] == {"aws:SourceArn": {"Fn::GetAtt": [rule, "Arn"]}}


def test_the_function_gets_one_event_at_a_time_five_of_them_at_once(template: dict[str, Any]) -> None:
    mapping = only(template, "AWS::Lambda::EventSourceMapping")

    assert (mapping["BatchSize"], mapping["ScalingConfig"]) == (1, {"MaximumConcurrency": 5})
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_function_is_outside_of_any_network_and_writes_a_log_of_its_own(template: dict[str, Any]) -> None:
    function = only(template, "AWS::Lambda::Function")
    (log,) = resources_of(template, "AWS::Logs::LogGroup")

    assert "VpcConfig" not in function
    assert function["Handler"] == "launcher.controller.handle"
    assert (function["MemorySize"], function["Architectures"]) == (2048, ["x86_64"])
    assert function["LoggingConfig"] == {"LogGroup": {"Ref": log}}
    assert only(template, "AWS::Logs::LogGroup")["RetentionInDays"] == 30


def test_the_function_is_told_what_it_needs_to_know(template: dict[str, Any], unwatched: Synthesized) -> None:
    told = only(template, "AWS::Lambda::Function")["Environment"]["Variables"]

    assert set(told) == {
        "SLIPWAY_CLUSTER", "SLIPWAY_CODE_BUCKET", "SLIPWAY_QUEUE_ARN", "SLIPWAY_SCHEDULE_GROUP",
        "SLIPWAY_SCHEDULE_ROLE", "SLIPWAY_TOPIC_ARN", "SLIPWAY_DIGEST",
    }  # fmt: skip
    assert told["SLIPWAY_CLUSTER"] == "p5-large"
    (untold,) = unwatched.resources("managed", "AWS::Lambda::Function").values()
    assert set(told) - set(untold["Properties"]["Environment"]["Variables"]) == {"SLIPWAY_TOPIC_ARN"}


def test_schedules_of_its_own_group_alone_may_send_to_its_queue_alone(template: dict[str, Any]) -> None:
    (group,) = resources_of(template, "AWS::Scheduler::ScheduleGroup")
    events, _ = queue(template, "Events")
    (role,) = [
        each["Properties"]
        for name, each in resources_of(template, "AWS::IAM::Role").items()
        if name.startswith("RunsScheduleRole")
    ]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    ((statement,),) = [policy["PolicyDocument"]["Statement"] for policy in role["Policies"]]

    assert trust["Condition"] == {
        "StringEquals": {
            "aws:SourceAccount": {"Ref": "AWS::AccountId"},
            "aws:SourceArn": {"Fn::GetAtt": [group, "Arn"]},
        }
    }
    assert statement["Action"] == "sqs:SendMessage"
    assert statement["Resource"] == {"Fn::GetAtt": [events, "Arn"]}


def test_schedules_go_with_their_group(template: dict[str, Any]) -> None:
    (group,) = resources_of(template, "AWS::Scheduler::ScheduleGroup").values()

    assert group["DeletionPolicy"] == "Delete"


def test_events_that_were_given_up_and_errors_raise_alarms(template: dict[str, Any]) -> None:
    failed, _ = queue(template, "Failed")
    (function,) = resources_of(template, "AWS::Lambda::Function")
    alarms = {each["MetricName"]: each for each in properties(template, "AWS::CloudWatch::Alarm")}

    given_up, errors = alarms["ApproximateNumberOfMessagesVisible"], alarms["Errors"]
    assert given_up["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": [failed, "QueueName"]}}]
    assert errors["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": function}}]
    for alarm in (given_up, errors):
        assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (1, 1)
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert "WeakJobsTopic" in json.dumps(alarm["AlarmActions"])


def test_without_observability_the_alarms_are_there_and_tell_nobody(unwatched: Synthesized) -> None:
    alarms = [
        each["Properties"] for each in unwatched.resources("managed", "AWS::CloudWatch::Alarm").values()
    ]

    assert len(alarms) == 2
    assert not any("AlarmActions" in each for each in alarms)
    assert not any(text in json.dumps(unwatched.template("managed")) for text in ("sns:", "kms:"))


def test_a_cluster_that_does_not_ask_for_it_gives_launchers_no_runs() -> None:
    dev = cluster("dev")

    assert "managed" not in dev.parts
    assert "/runs/" not in json.dumps(dev.template("access"))
