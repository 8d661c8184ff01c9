"""The JSON schema that editors use, and `secrets`: what may stand there, and that nobody repeats it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from launcher.jobs.load_job import LoadedJob, Variables, load_job
from launcher.jobs.specification import job_schema

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(job_schema())
    return jsonschema.Draft202012Validator(job_schema())


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*/job.yaml")), ids=lambda file: file.parent.name
)
def test_the_examples_fit_it(validator: jsonschema.Draft202012Validator, file: Path) -> None:
    assert list(validator.iter_errors(yaml.safe_load(file.read_text()))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": {"train": "s3://bucket/prefix"}},
        {"inputs": {"train": {"lustre": "/train", "access": "rw"}}},
        {"limits": {"max_runtime": "24h"}},
        {"limits": {"max_runtime_seconds": 60}},
        {"resources": {"instance_type": "ml.p5.48xlarge", "capacity": {"training_plan": "arn:aws:x"}}},
        {"data": {"size": "2TB"}},
        {"hyperparameters": {"lr": 0.1, "on": True, "deep": {"a": [1]}}},
        {"environment": {"A": 1, "B": True}},
    ],
    ids=str,
)
def test_what_people_write_fits_it(
    validator: jsonschema.Draft202012Validator, job_data: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert list(validator.iter_errors({**job_data, **changes})) == []


@pytest.mark.parametrize(
    "changes",
    [{"nmae": "x"}, {"resources": {}}, {"limits": {"max_runtime": "1 day"}}, {"inputs": {"train": 1}}],
    ids=str,
)
def test_what_the_launcher_refuses_does_not_fit_it(
    validator: jsonschema.Draft202012Validator, job_data: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert list(validator.iter_errors({**job_data, **changes}))


def test_every_field_is_described() -> None:
    fields = job_schema()["properties"]
    parts = {name for name, field in fields.items() if not (field.get("description") or field.get("$ref"))}
    plain = {name for name in parts if not any("$ref" in item for item in fields[name].get("anyOf", []))}
    assert plain == set()


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
