"""`secrets`: what may stand there, and that nobody repeats it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load import LoadedJob, load_job
from launcher.jobs.variables import Variables

ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"
Load = Callable[..., LoadedJob]


@pytest.fixture
def load(write_job: Callable[..., Path]) -> Load:
    return lambda **fields: load_job(write_job(**fields), variables=Variables({"TEAM": "vision"}))


@pytest.mark.parametrize("secret", ["hf", "team/hf_token", ARN, ARN.replace("aws", "aws-cn", 1)])
def test_a_secret_is_named_by_its_name_or_its_arn(load: Load, secret: str) -> None:
    spec = load(secrets={"HF_TOKEN": secret}).spec
    assert spec is not None
    assert spec.secrets == {"HF_TOKEN": secret}


def test_a_variable_may_stand_in_its_name(load: Load) -> None:
    loaded = load(secrets={"HF_TOKEN": "${TEAM}/hf"})
    assert loaded.spec is not None
    assert loaded.spec.secrets == {"HF_TOKEN": "vision/hf"}
    assert loaded.substitutions.shown("no secret vision/hf") == "no secret ${TEAM}/hf"


@pytest.mark.parametrize("value", ["pa$$ word", "", ARN[:-7], ARN.replace("secret:", "x:"), "a" * 513])
def test_what_is_no_name_is_refused_without_repeating_it(load: Load, value: str) -> None:
    (found,) = load(secrets={"HF_TOKEN": value}).findings
    assert (found.code, found.subject) == ("SPEC003", "secrets.HF_TOKEN")
    assert "neither the name of a secret" in found.message
    assert not value or value not in str(found.to_json())


@pytest.mark.parametrize(
    ("fields", "subject", "told"),
    [
        ({"secrets": {"A-B": "x"}}, "secrets.A-B", "does not have the form"),
        ({"secrets": {"T": "x"}, "environment": {"T": "1"}}, "secrets.T", "in `environment` as well"),
        ({"secrets": {"AWS_SESSION_TOKEN": "x"}}, "secrets.AWS_SESSION_TOKEN", "the AWS SDKs"),
        ({"secrets": {"SM_HPS": "x"}}, "secrets.SM_HPS", "SageMaker's variables"),
        ({"secrets": {"slipway_log": "x"}}, "secrets.slipway_log", "the launcher's own"),
        ({"environment": {"SLIPWAY_SECRETS": "{}"}}, "environment.SLIPWAY_SECRETS", "tells the boot"),
    ],
)
def test_a_variable_that_is_another_ones_is_refused(
    load: Load, fields: dict[str, Any], subject: str, told: str
) -> None:
    (found,) = load(**fields).findings
    assert (found.code, found.subject) == ("SPEC003", subject)
    assert told in found.message
