"""IMG002: AWS's images against the machines of SageMaker."""

from __future__ import annotations

import pytest

from launcher.cluster.instances import instance_facts
from launcher.planning.image_fit import Misfit, misfit

AWS = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


def judged(image: str, instance_type: str) -> Misfit | None:
    facts = instance_facts(instance_type)
    assert facts is not None
    return misfit(f"{AWS}/{image}", facts)


@pytest.mark.parametrize(
    ("image", "instance_type", "says", "remedy"),
    [
        ("pytorch-training:2.1.0-gpu-py310", "ml.p6-b200.48xlarge", "CUDA 12.1", "PyTorch 2.7.1"),
        ("pytorch-training:2.6.0-gpu-py312", "ml.p6-b200.48xlarge", "no newer than 9.0", "PyTorch 2.7.1"),
        ("pytorch-training:2.5.1-gpu-py311", "ml.g7e.2xlarge", "has 12.0", "PyTorch 2.7.1"),
        ("pytorch-training:2.9.0-gpu-py312", "ml.p3.16xlarge", "no older than 7.5", "PyTorch 2.8.0"),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", "ml.p3.2xlarge", "has 7.0", "2.8.0 (CUDA 12.9) or before"),
        ("pytorch-training:2.8.0-gpu-py312", "ml.p2.xlarge", "no p2", "ml.g4dn.xlarge"),
        ("pytorch-training:1.13.1-cpu-py39", "ml.p2.xlarge", "no p2", "ml.g4dn.xlarge"),
        ("tensorflow-training:2.12.0-gpu-py310", "ml.p2.xlarge", "no p2", "ml.g4dn.xlarge"),
        ("pytorch-training:2.9.0-gpu-py312", "ml.p6e-gb200.36xlarge", "arm64", "build one"),
        (
            "pytorch-training-arm64:2.7.0-gpu-py312-cu128-ubuntu22.04-ec2",
            "ml.p5.48xlarge",
            "built for arm64",
            "without arm64",
        ),
        ("pytorch-training:2.8.0-gpu-py312", "ml.trn1.32xlarge", "no Neuron SDK", "pytorch-training-neuronx"),
        (
            "pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04",
            "ml.p5.48xlarge",
            "for Neuron",
            "trn1",
        ),
        (
            "pytorch-training-neuron:1.11.0-neuron-py38-sdk2.4.0-ubuntu20.04",
            "ml.trn2.48xlarge",
            "before Trainium2",
            "neuronx",
        ),
    ],
)
def test_an_image_that_cannot_run_on_the_machine(
    image: str, instance_type: str, says: str, remedy: str
) -> None:
    found = judged(image, instance_type)
    assert found is not None
    assert says in found.message
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("image", "instance_type"),
    [
        ("pytorch-training:2.7.1-gpu-py312", "ml.p6-b200.48xlarge"),
        ("pytorch-training:2.8.0-gpu-py312", "ml.g7e.2xlarge"),
        ("pytorch-training:2.8.0-gpu-py312", "ml.p3.16xlarge"),
        # Code for 8.6 runs on 8.9, and code for 10.0 on 10.3.
        ("pytorch-training:1.13.1-gpu-py39", "ml.g6.xlarge"),
        ("pytorch-training:2.7.1-gpu-py312", "ml.p6-b300.48xlarge"),
        ("pytorch-training:2.9.0-gpu-py312", "ml.g4dn.xlarge"),
        ("pytorch-training:1.12.1-gpu-py38", "ml.p2.xlarge"),
        ("pytorch-training:2.1.0-cpu-py310", "ml.p6-b200.48xlarge"),
        ("pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04", "ml.trn2.48xlarge"),
        # Its CUDA is not known here.
        ("pytorch-training:1.4.0-gpu-py3", "ml.p4d.24xlarge"),
        ("tensorflow-training:2.14.1-gpu-py310", "ml.p6-b200.48xlarge"),
    ],
)
def test_an_image_that_runs_on_the_machine_or_of_which_too_little_is_known(
    image: str, instance_type: str
) -> None:
    assert judged(image, instance_type) is None


def test_nothing_is_said_of_an_own_image_and_of_an_unknown_type() -> None:
    facts = instance_facts("ml.p6e-gb200.36xlarge")
    assert misfit("111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1", facts) is None
    assert misfit(f"{AWS}/pytorch-training:2.1.0-gpu-py310", None) is None
