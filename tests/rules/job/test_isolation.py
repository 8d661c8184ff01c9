"""Containers that reach nobody, and hosts that encrypt their traffic: NET001 and NET002."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ISOLATED = {"network": {"isolation": True}}
ENCRYPTED = {"network": {"encryption": True}}
P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 0.1, "max": 0.2}},
    "max_jobs": 2,
}
MLFLOW = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/team"


def test_a_job_that_gets_all_through_channels_may_be_isolated(judge) -> None:
    given: dict[str, Any] = {
        "inputs": {"train": {"s3_uri": "s3://team/train", "mode": "FastFile"}},
        "checkpoint": {"s3_uri": "s3://team/checkpoints"},
        "resources": P4D,
        "distribution": {"strategy": "torchrun"},
    }
    assert judge("NET001", **given, **ISOLATED) == []


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"secrets": {"HF_TOKEN": "team/hf"}}, "secrets"),
        ({"checkpoint": {"s3_uri": "s3://team/c", "sync": "slipway"}}, "checkpoint.sync"),
        ({"debug": {"remote": True}}, "debug.remote"),
        ({"mlflow": {"arn": MLFLOW}}, "mlflow"),
        ({"tuning": TUNING}, "network.isolation"),
        ({"distribution": {"strategy": "mpi"}, "resources": P4D}, "network.isolation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_isolated_container_cannot_do_is_an_error_at_its_field(
    judge, fields: dict[str, Any], subject: str
) -> None:
    assert judge("NET001", **fields) == []
    (finding,) = judge("NET001", **fields, **ISOLATED)
    assert (finding.severity, finding.subject) == ("error", subject)
    assert judge("NET001", here=True, **fields, **ISOLATED) == []


@pytest.mark.parametrize(
    ("requirements", "found"),
    [
        ("tinydb\n", ["warning"]),
        ("--no-index\n--find-links ./wheels\ntinydb\n", []),
        ("# nothing\n", []),
    ],
)
def test_packages_from_an_index_are_warned_of(
    judge, tmp_path: Path, requirements: str, found: list[str]
) -> None:
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src" / "wheels").mkdir()
    (tmp_path / "src" / "requirements.txt").write_text(requirements)
    findings = judge("NET001", **ISOLATED)
    assert [(each.severity, each.subject) for each in findings] == [
        (severity, "code.requirements") for severity in found
    ]


def test_several_hosts_are_told_the_price_of_encryption(judge) -> None:
    assert judge("NET002", resources=P4D) == []
    (finding,) = judge("NET002", resources=P4D, **ENCRYPTED)
    assert (finding.severity, finding.subject) == ("warning", "network.encryption")
    assert "2 hosts encrypt" in finding.message
    assert "AWS does not say whether its traffic is encrypted" in finding.message
    without_efa = {"instance_type": "ml.m5.xlarge", "instance_count": 2}
    (finding,) = judge("NET002", resources=without_efa, **ENCRYPTED)
    assert "EFA" not in finding.message


def test_one_host_has_nothing_to_encrypt(severity_of) -> None:
    one = {"instance_type": "ml.p4d.24xlarge"}
    assert severity_of("NET002", resources=one, **ENCRYPTED) == "info"


def test_encryption_wants_a_network_of_ones_own(judge) -> None:
    assert judge("SPEC004", resources=P4D, **ENCRYPTED) != []
    own = {"subnets": ["subnet-0123456789abcdef0"], "security_group_ids": ["sg-0123456789abcdef0"]}
    assert judge("SPEC004", resources=P4D, network={**own, "encryption": True}) == []
    assert judge("SPEC004", here=True, resources=P4D, **ENCRYPTED) == []
