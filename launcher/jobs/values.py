"""Value types of the job file: they parse what people write and hold one plain unit."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from launcher.documents.validation import FilePart
from launcher.text.uris import BUCKET_NAME


class Part(FilePart):
    """A mapping of the job file; texts lose the spaces around them."""

    # Built when first used: of all these models only the whole job's ever validates anything.
    model_config = ConfigDict(str_strip_whitespace=True, defer_build=True)


_DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}


def parse_duration(value: Any) -> int:
    """Seconds from `24h`, `1d12h`, `90m` or a number of seconds.

    Raises ValueError for anything else, a negative number or a boolean.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = str(value).strip().lower()
    if text.isdigit():
        return int(text)
    parts = re.findall(r"(?<!\d)(\d+)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{value!r} is not a duration; write it as 30m, 24h or 1d12h")
    return sum(int(number) * _DURATION_UNITS[unit] for number, unit in parts)


def parse_size(value: Any) -> int:
    """Bytes from `500GB`, `2TB`, `64GiB` or a number of bytes.

    Raises ValueError for anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
    if match is None or match[2] not in _SIZE_UNITS:
        raise ValueError(f"{value!r} is not a size; write it as 500GB, 2TB or 64GiB")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^(\d+[smhdSMHD])+$"},
                {"type": "integer", "minimum": 0},
            ],
            "description": "A duration such as 30m, 24h or 1d12h, or a number of seconds.",
        }
    ),
]
"""Seconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)?\s*([kmgtpKMGTP]?[iI]?[bB])?$"},
                {"type": "integer", "minimum": 0},
            ],
            "description": "A size such as 500GB, 2TB or 64GiB, or a number of bytes.",
        }
    ),
]
"""Bytes."""


def scalar_text(value: Any) -> str:
    """The text of a single value, as an environment variable, an argument or a tag takes it.

    Raises ValueError for lists, mappings and null.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    kind = "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "null"
    raise ValueError(f"must be a single value, such as a text or a number, not {kind}")


ScalarText = Annotated[str, BeforeValidator(scalar_text, json_schema_input_type=str | int | float | bool)]
"""A string; a number or a boolean becomes one, as it was written."""

S3Uri = Annotated[str, Field(pattern=rf"^s3://{BUCKET_NAME}(/.*)?$")]
"""`s3://bucket` or `s3://bucket/prefix`."""

RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$")]
"""The ARN of an IAM role (pattern of the SageMaker API model, RoleArn)."""
