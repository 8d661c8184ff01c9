"""Other projects' tables are read as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.facts.references import image_releases, karpenter_types, main, plugin_platforms, training_quotas

SAMPLES = Path(__file__).with_name("samples")
KARPENTER, PLUGIN, QUOTAS = (
    (SAMPLES / name).read_text("utf-8") for name in ("instance-types.md", "platform-aws.cpp", "variables.tf")
)


def test_of_karpenter_the_types_that_train_are_read() -> None:
    assert karpenter_types(KARPENTER) == {
        "p5.48xlarge": {
            "vcpus": 192,
            "cpu_architecture": "x86_64",
            "local_nvme_gb": 30400,
            "efa_interfaces": 32,
            "accelerators": 8,
            "accelerator_memory_mib": 81920,
        }
    }


def test_of_the_plugin_the_map_is_read_in_its_order() -> None:
    assert plugin_platforms(PLUGIN) == {
        "p5/p5e": {
            "regex": "^p5(e?\\..*)",
            "gdr_required": True,
            "environment": {"NCCL_BUFFSIZE": "8388608", "NCCL_NETDEVS_POLICY": "max:1"},
        },
        "p3dn.24xlarge": {"regex": None, "gdr_required": False, "environment": {}},
    }


def test_a_map_in_another_form_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ValueError, match="p5/p5e"):
        plugin_platforms(PLUGIN.replace(".gdr_required", ".needs_gdr"))


def test_of_the_quotas_those_of_training_hosts_are_read() -> None:
    assert training_quotas(QUOTAS) == {
        "training job": {"ml.trn1.32xlarge": "L-79A1FE57"},
        "training warm pool": {"ml.trn1.32xlarge": "L-36F422F7"},
    }


def test_what_cannot_be_quoted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["some/other", "folder"]) == 2
    assert "aws/karpenter-provider-aws" in capsys.readouterr().err


def test_of_aws_images_those_for_training_on_sagemaker_are_read() -> None:
    described = (
        "version: '2.11'\npython: py312\ncuda: cu130\neop: '2027-04-30'\nplatform: {}\ntags: [{}, b]\n"
    )
    files = {
        "docs/src/data/pytorch/2.11-cuda-sagemaker.yml": described.format("sagemaker", "2.11.0-cu130"),
        "docs/src/data/pytorch/2.11-cuda-ec2.yml": described.format("ec2", "2.11.0-cu130-ec2"),
        "docs/src/data/vllm/1.yml": described.format("sagemaker", "1"),
    }
    assert image_releases(files) == {
        "pytorch:2.11.0-cu130": {"python": "py312", "cuda": "cu130", "eop": "2027-04-30"}
    }
