"""A job without Training Compiler beside the job with it; other choices are in `cases/images.yaml`."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.failure_modes.model import Refusal
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import native_counterpart
from tests.planning.comparison import differences, plan_of

COMPILED: dict[str, Any] = {
    "name": "g",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "1.12"},
    "hyperparameters": {"lr": 0.1},
    "resources": {"instance_type": "ml.p3.16xlarge", "instance_count": 2},
    "distribution": {"strategy": "torch_xla", "options": {"debug": True}},
    "inputs": {"train": "s3://bucket/train"},
    "environment": {"MINE": "1"},
}


def test_the_pair_differs_in_the_compiler_alone() -> None:
    compiled = JobSpec.model_validate(COMPILED)
    changed = differences(
        native_counterpart(compiled).model_dump(mode="json"), compiled.model_dump(mode="json")
    )
    named = ("distribution.", "framework.python", "framework.version")
    assert changed["distribution.strategy"] == ("torchrun", "torch_xla")
    assert [path for path in changed if not path.startswith(named)] == []


def test_both_run_the_same_pytorch_and_python_on_the_same_processes() -> None:
    compiled = plan_of(COMPILED)
    native = plan_of(
        native_counterpart(JobSpec.model_validate(COMPILED)).model_dump(mode="json", exclude_none=True)
    )
    images = [plan.request["AlgorithmSpecification"]["TrainingImage"] for plan in (compiled, native)]
    assert [image.rpartition("/")[2] for image in images] == [
        "pytorch-trcomp-training:1.12.0-gpu-py38",
        "pytorch-training:1.12.0-gpu-py38",
    ]
    assert compiled.world_size == native.world_size == 16
    assert compiled.request["ResourceConfig"] == native.request["ResourceConfig"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"distribution": {"strategy": "torchrun"}}, "without Training Compiler"),
        ({"framework": None, "image": "repository/image:tag"}, "its own image"),
    ],
)
def test_what_has_no_pair_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        native_counterpart(JobSpec.model_validate({**COMPILED, **changes}))
