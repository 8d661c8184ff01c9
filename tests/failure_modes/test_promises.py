"""What the texts tell a user to set or to type is there: job fields, their values, commands and options."""

from __future__ import annotations

import json
import re

from launcher.diagnosis.signatures import LACKS, SIGNATURES
from launcher.failure_modes.registry import CATALOGUE
from launcher.jobs.specification import JobSpec
from tests.docs.test_commands import unknown_commands

SCHEMA = JobSpec.model_json_schema()
TEXTS = {
    **{mode.code: f"{mode.cause} {mode.remedy}" for mode in CATALOGUE.values()},
    **{f"{row.code}: {row.example}": row.remedy for row in SIGNATURES if row.remedy is not None},
    **{f"here: {row.lacks}": row.remedy for row in LACKS.values() if row.remedy is not None},
}
FIELD = re.compile(r"([a-z_]+(?:\.[A-Za-z_]+)*)(?:: ([a-z_]+))?")
ANY_NAME = "NAME"


def unknown_fields(text: str) -> list[str]:
    """The paths of job fields in a text, in backticks, that no job file may have, and their values."""
    spans = (FIELD.fullmatch(span) for span in re.findall(r"`([^`]+)`", text))
    return [
        span.group()
        for span in spans
        if span and span[1].split(".")[0] in SCHEMA["properties"] and not _is_known(span[1], span[2])
    ]


def _is_known(path: str, value: str | None) -> bool:
    allowed = json.dumps(SCHEMA)
    parts: list[dict] = [SCHEMA]
    for name in path.split("."):
        parts = [
            below
            for part in parts
            for below in (
                part.get("properties", {}).get(name),
                *(_of_any_name(part) if name == ANY_NAME else ()),
            )
            if isinstance(below, dict)
        ]
        parts = [each for part in parts for each in _resolved(part)]
        if not parts:
            return False
    return value in (None, "true", "false") or f'"{value}"' in allowed


def _of_any_name(part: dict) -> list:
    return [part.get("additionalProperties"), *part.get("patternProperties", {}).values()]


def _resolved(part: dict) -> list[dict]:
    if "$ref" in part:
        return _resolved(SCHEMA["$defs"][part["$ref"].rpartition("/")[2]])
    return [part, *(each for option in part.get("anyOf", ()) for each in _resolved(option))]


def test_a_text_names_only_fields_that_a_job_file_has() -> None:
    unknown = {name: unknown_fields(text) for name, text in TEXTS.items()}
    assert {name: fields for name, fields in unknown.items() if fields} == {}


def test_a_text_names_only_commands_that_there_are() -> None:
    unknown = {name: unknown_commands(text) for name, text in TEXTS.items()}
    assert {name: commands for name, commands in unknown.items() if commands} == {}


def test_what_is_not_there_would_be_found() -> None:
    text = (
        "Set `checkpoint.uploader`, `checkpoint.sync: magic`, `inputs.NAME.speed`; or `launch gate JOB.yaml`."
    )
    assert unknown_fields(text) == ["checkpoint.uploader", "checkpoint.sync: magic", "inputs.NAME.speed"]
    assert unknown_commands(text) == ["launch gate"]
    assert unknown_fields("`checkpoint.sync: slipway`, `limits.max_retries`, `inputs.NAME.mode`") == []
