"""Images that the job file names: DIST002, IMG001, IMG002."""

from __future__ import annotations

import pytest

from tests.rules.job.tuning_job import TUNING

OWN_IMAGE = {"framework": None, "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1"}


@pytest.mark.parametrize(("strategy", "found"), [("torchrun", "warning"), ("none", "warning"), ("mpi", None)])
def test_an_image_of_ones_own_needs_the_toolkit_where_the_boot_would_do_without(
    severity_of, strategy: str, found: str | None
) -> None:
    job = {"distribution": {"strategy": strategy}, **OWN_IMAGE}
    assert severity_of("DIST002", tuning=TUNING, **job) == found
    assert severity_of("DIST002", **job) is None


AWS = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("pytorch/pytorch:2.8.0-cuda12.6-cudnn9-runtime", "error"),
        ("docker.io/me/mine:1", "error"),
        (f"{AWS}/pytorch-training:2.9.9-gpu-py312", "warning"),
        (f"{AWS}/pytorch-training", "warning"),
        (f"{AWS}/pytorch-inference:2.6.0-gpu-py312", "warning"),
        (f"{AWS}/pytorch-training:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker", None),
        (f"{AWS}/pytorch:2.13-cu130-amzn2023-sagemaker", None),
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-inference", None),
        ("111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov/mine:1", None),
    ],
)
def test_an_image_that_cannot_be_pulled_is_said_before(severity_of, image: str, found: str | None) -> None:
    job = {"framework": None, "image": image}
    assert severity_of("IMG001", **job) == found
    assert severity_of("IMG001", **job, here=True) is None


def test_an_unknown_version_of_awss_comes_with_those_near_it(judge) -> None:
    (finding,) = judge("IMG001", framework=None, image=f"{AWS}/pytorch-training:2.9.9-gpu-py312")
    assert "2.9.0" in finding.remedy
    assert finding.location is not None


@pytest.mark.parametrize(
    ("tag", "instance_type", "found"),
    [
        ("2.10.0-cpu-py313", "ml.g5.12xlarge", "warning"),
        ("2.10.0-gpu-py313", "ml.g5.12xlarge", None),
        ("2.10.0-cpu-py313", "ml.m5.xlarge", None),
    ],
)
def test_an_image_for_cpus_leaves_gpus_idle(
    severity_of, tag: str, instance_type: str, found: str | None
) -> None:
    job = {"framework": None, "image": f"{AWS}/pytorch-training:{tag}"}
    assert severity_of("IMG002", **job, resources={"instance_type": instance_type}) == found
