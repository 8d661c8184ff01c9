"""Secrets of a job that the cluster does not name: IAM002."""

from __future__ import annotations

from typing import Any

import pytest

ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"
JOB = {"secrets": {"HF_TOKEN": "team/hf"}}


@pytest.mark.parametrize("known", [["team/hf"], ["other", ARN]])
def test_a_secret_of_the_cluster_is_fine(judge, manifest: dict[str, Any], known: list[str]) -> None:
    assert not judge("IAM002", manifest={**manifest, "secrets": known}, **JOB)


@pytest.mark.parametrize("known", [[], ["team/h"], [ARN.replace("hf", "wandb")]])
def test_another_one_is_warned_about(judge, manifest: dict[str, Any], known: list[str]) -> None:
    (found,) = judge("IAM002", manifest={**manifest, "secrets": known}, **JOB)
    assert (found.severity, found.subject) == ("warning", "secrets.HF_TOKEN")
    assert "team/hf is not among the secrets of the cluster dev" in found.message
    assert found.remedy == "Add team/hf to `secrets` of the cluster file and deploy."
    assert found.location is not None


def test_a_manifest_of_before_names_none(judge, manifest: dict[str, Any]) -> None:
    assert "secrets" not in manifest
    assert "(none)" in judge("IAM002", manifest=manifest, **JOB)[0].message


def test_another_role_no_cluster_and_a_run_here_are_not_judged(judge, manifest: dict[str, Any]) -> None:
    assert not judge("IAM002", manifest=manifest, role_arn="arn:aws:iam::111122223333:role/mine", **JOB)
    assert not judge("IAM002", **JOB)
    assert not judge("IAM002", manifest=manifest, here=True, **JOB)
