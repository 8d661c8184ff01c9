"""The queue: AWS Batch in front of SageMaker, with shares."""

from __future__ import annotations

from typing import Any

from constructs.job_queue import JobQueue

from tests.stacks.synthesis import new_stack, resources_of, template_of


def synthesized(**properties: Any) -> dict[str, Any]:
    stack = new_stack()
    JobQueue(stack, "Queue", **properties)
    return template_of(stack)


def test_queue_is_one_for_training_jobs() -> None:
    template = synthesized(max_instances=64)
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()
    (environment,) = resources_of(template, "AWS::Batch::ServiceEnvironment").values()

    assert queue["Properties"]["JobQueueType"] == "SAGEMAKER_TRAINING"
    assert environment["Properties"]["ServiceEnvironmentType"] == "SAGEMAKER_TRAINING"
    assert environment["Properties"]["CapacityLimits"] == [
        {"CapacityUnit": "NUM_INSTANCES", "MaxCapacity": 64}
    ]


def test_shares_decide_who_comes_first() -> None:
    template = synthesized(max_instances=8, shares={"research": 1.0, "production": 0.5})
    (policy,) = resources_of(template, "AWS::Batch::SchedulingPolicy").values()
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()

    assert policy["Properties"]["FairsharePolicy"]["ShareDistribution"] == [
        {"ShareIdentifier": "research", "WeightFactor": 1},
        {"ShareIdentifier": "production", "WeightFactor": 0.5},
    ]
    assert "SchedulingPolicyArn" in queue["Properties"]


def test_without_shares_first_in_is_first_out() -> None:
    template = synthesized(max_instances=8)
    (queue,) = resources_of(template, "AWS::Batch::JobQueue").values()

    assert not resources_of(template, "AWS::Batch::SchedulingPolicy")
    assert "SchedulingPolicyArn" not in queue["Properties"]
