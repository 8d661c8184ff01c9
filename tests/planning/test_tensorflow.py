"""Jobs in AWS's images of TensorFlow: what starts them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import JobSource, prepare, read_job

PlanOf = Callable[..., TrainingPlan]


@pytest.fixture
def plan_of_tensorflow(write_job: Callable[..., Path]) -> PlanOf:
    def plan(strategy: str, version: str = "2.11", **fields: Any) -> TrainingPlan:
        file = write_job(
            framework={"name": "tensorflow", "version": version},
            distribution={"strategy": strategy},
            **fields,
        )
        return prepare(read_job(JobSource(file)), session_region="us-west-2")

    return plan


def refusals(plan: TrainingPlan) -> list[str]:
    return [each.message for each in plan.findings if each.code == "DIST002"]


@pytest.mark.parametrize("strategy", ["smddp", "mpi"])
def test_what_the_images_toolkit_starts_runs(plan_of_tensorflow: PlanOf, strategy: str) -> None:
    plan = plan_of_tensorflow(strategy)
    assert not plan.refused and plan.view is not None
    assert str(plan.view.image).endswith("/tensorflow-training:2.11.0-gpu-py39")
    assert not [name for name in plan.view.environment if name.startswith("TORCH_")]


def test_the_example_of_the_guide_is_a_job_file(plan_of_tensorflow: PlanOf) -> None:
    # SageMaker developer guide, distributed-troubleshooting-data-parallel: checkpoints, and no Debugger.
    plan = plan_of_tensorflow(
        "smddp", checkpoint={"s3_uri": "s3://bucket/test/checkpoints", "local_path": "/opt/ml/checkpoints"}
    )
    assert not plan.refused and plan.request is not None
    assert plan.request["HyperParameters"]["sagemaker_distributed_dataparallel_enabled"] == "true"
    assert plan.request["CheckpointConfig"]["LocalPath"] == "/opt/ml/checkpoints"
    assert not plan.debugger.on


def test_a_script_alone_is_started_by_the_boot(plan_of_tensorflow: PlanOf) -> None:
    plan = plan_of_tensorflow("none", "2.19.0", resources={"instance_type": "ml.m5.xlarge", "instance_count": 1})
    assert not plan.refused and plan.with_boot and plan.view is not None
    assert str(plan.view.image).endswith("/tensorflow-training:2.19.0-cpu-py312")


@pytest.mark.parametrize("strategy", ["torchrun", "smp", "torch_xla"])
def test_what_is_pytorchs_alone_is_refused_once(plan_of_tensorflow: PlanOf, strategy: str) -> None:
    (message,) = [each for each in refusals(plan_of_tensorflow(strategy)) if "TensorFlow" in each or "PyTorch" in each]
    assert f"the strategy {strategy} starts PyTorch" in message


@pytest.mark.parametrize(
    ("version", "refused"), [("2.4.1", False), ("2.11", False), ("2.12", True), ("2.3.2", True)]
)
def test_smddp_comes_with_some_versions(plan_of_tensorflow: PlanOf, version: str, refused: bool) -> None:
    assert bool(refusals(plan_of_tensorflow("smddp", version))) is refused


@pytest.mark.parametrize(("version", "refused"), [("2.5", True), ("2.6", False)])
def test_the_boot_needs_a_newer_python_than_the_oldest_images_have(
    plan_of_tensorflow: PlanOf, version: str, refused: bool
) -> None:
    assert bool(refusals(plan_of_tensorflow("none", version))) is refused
    assert refusals(plan_of_tensorflow("mpi", version)) == []
