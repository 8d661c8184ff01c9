"""What the URIs of AWS's images say."""

from __future__ import annotations

import pytest

from launcher.planning.aws_image import aws_image

AWS = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("pytorch-training:2.8.0-gpu-py312", ("pytorch", "2.8.0", "gpu", "12.9")),
        ("pytorch-training:2.0.1-gpu-py310-cu121-ubuntu20.04-sagemaker", ("pytorch", "2.0.1", "gpu", "12.1")),
        ("pytorch-training:2.8.0-cpu-py312", ("pytorch", "2.8.0", "cpu", None)),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", ("pytorch", "2.13", "gpu", "13.3")),
        ("pytorch:2.13-cpu-amzn2023-sagemaker", ("pytorch", "2.13", "cpu", None)),
        (
            "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04",
            ("pytorch", "2.1.0", "gpu", "12.1"),
        ),
        (
            "pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04",
            ("pytorch-neuron", "2.9.0", "neuron", None),
        ),
        ("tensorflow-training:2.19.0-gpu-py312", ("tensorflow", "2.19.0", "gpu", "12.5")),
        ("pytorch-training:1.4.0-gpu-py3", ("pytorch", "1.4.0", "gpu", None)),
    ],
)
def test_framework_version_processor_and_cuda_are_read(
    image: str, said: tuple[str, str, str, str | None]
) -> None:
    found = aws_image(f"{AWS}/{image}")
    assert found is not None
    assert (found.framework, found.version, found.processor, found.cuda) == said
    assert found.name == image


@pytest.mark.parametrize(
    "uri",
    [
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
        f"{AWS}/sglang:0.5-gpu",
        f"{AWS}/pytorch-training@sha256:{'0' * 64}",
        f"{AWS}/pytorch-training:latest",
        "pytorch/pytorch:2.8.0-cuda12.8",
    ],
)
def test_what_is_not_one_of_awss_frameworks_is_not_read(uri: str) -> None:
    assert aws_image(uri) is None


def test_an_image_for_arm_is_known_by_its_repository() -> None:
    found = aws_image(f"{AWS}/pytorch-training-arm64:2.7.0-gpu-py312-cu128-ubuntu22.04-ec2")
    assert found is not None
    assert found.cpu_architecture == "arm64"
