"""The JSON schema that editors use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

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
