"""The job file's JSON schema, made from the models."""

from __future__ import annotations

from typing import Any

from launcher.jobs.specification import JobSpec


def job_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a job file, as people write it."""
    schema = JobSpec.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Slipway job file"}
