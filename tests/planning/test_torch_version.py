"""Which PyTorch a job file tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import load_job
from launcher.planning.torch_version import torch_version

ECR = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("job", "version"),
    [
        pytest.param({"framework": {"version": "2.10.0"}}, (2, 10), id="framework"),
        pytest.param({"framework": {"version": "2.8"}}, (2, 8), id="alias"),
        pytest.param({"image": f"{ECR}/pytorch-training:2.8.0-gpu-py312"}, (2, 8), id="AWS image"),
        pytest.param(
            {"image": f"{ECR}/huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu"}, (2, 1), id="HF"
        ),
        pytest.param({"image": f"{ECR}/pytorch-trcomp-training:1.13.1-gpu-py39"}, (1, 13), id="compiler"),
        pytest.param({"image": f"{ECR}/smdistributed-modelparallel:2.4.1-gpu"}, (2, 4), id="SMP"),
        pytest.param({"image": f"{ECR}/pytorch:2.13-cu133-amzn2023-sagemaker"}, (2, 13), id="since 2026"),
        pytest.param({"image": f"{ECR}/pytorch-training-neuronx:2.9.0-neuronx"}, (2, 9), id="Neuron"),
        pytest.param({"image": "me.example/pytorch-training:2.8.0-gpu"}, (2, 8), id="copy of an AWS image"),
        pytest.param({"image": f"{ECR}/tensorflow-training:2.19.0-gpu"}, None, id="TensorFlow"),
        pytest.param({"image": f"{ECR}/my-pytorch-training:2.8.0"}, None, id="own repository"),
        pytest.param({"image": f"{ECR}/pytorch-training@sha256:0"}, None, id="digest"),
    ],
)
def test_the_version_of_torch(
    write_job: Callable[..., Path], job: dict, version: tuple[int, int] | None
) -> None:
    spec = load_job(write_job(**{"framework": None, **job})).spec
    assert torch_version(spec) == version
