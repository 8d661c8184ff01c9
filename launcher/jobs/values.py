"""Value types of the job file: they parse what people write and hold one plain unit.

Durations, sizes, URIs, the regular expressions of `metrics`, and the ids of `secrets`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from launcher.cluster.names import SECRET_ID
from launcher.documents import FilePart, field_error
from launcher.text.values import BUCKET_NAME, parse_duration, parse_size


class Part(FilePart):
    """A mapping of the job file; texts lose the spaces around them."""

    # Built when first used: of all these models only the whole job's ever validates anything.
    model_config = ConfigDict(str_strip_whitespace=True, defer_build=True)


def _text_or_number(pattern: str, description: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": pattern}, {"type": "integer", "minimum": 0}],
            "description": description,
        }
    )


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    _text_or_number(r"^(\d+[smhdSMHD])+$", "A duration such as 30m, 24h or 1d12h, or a number of seconds."),
]
"""Seconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    _text_or_number(
        r"^\d+(\.\d+)?\s*([kmgtpKMGTP]?[iI]?[bB])?$",
        "A size such as 500GB, 2TB or 64GiB, or a number of bytes.",
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


# `metrics`: what is read from the log of a job, by regular expressions.


def _with_one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{pattern!r} has {groups or 'no'} groups; write one, ( ), around the number, and (?: ) "
            "for any other"
        )
    return pattern


MetricRegex = Annotated[
    str, StringConstraints(strip_whitespace=False, min_length=1), AfterValidator(_with_one_group)
]
"""A regular expression whose one group captures the number, searched in every line of the log.

Source: SageMaker developer guide, automatic-model-tuning-define-metrics-variables.
"""

MetricName = Annotated[str, Field(min_length=1, max_length=255)]
"""MetricName of the SageMaker API model."""


# `secrets`: variables of the script's environment whose values AWS Secrets Manager keeps.


_RESERVED = {
    "AWS_": "the AWS SDKs in the container would take it for their own instead of the job's role",
    "SM_": "SageMaker's variables begin so, and the boot sets them",
    "SLIPWAY_": "the launcher's own variables begin so",
}
_ID = re.compile(SECRET_ID)


def _known_form(value: str) -> str:
    if not _ID.fullmatch(value):
        # Not shown: whoever mistakes the field writes the secret itself.
        raise field_error(
            "this is neither the name of a secret in AWS Secrets Manager nor its ARN",
            remedy="Write the secret's name, or its ARN as `aws secretsmanager list-secrets` prints it; "
            "never its value.",
        )
    return value


SecretVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""

SecretId = Annotated[
    str, AfterValidator(_known_form), WithJsonSchema({"type": "string", "pattern": SECRET_ID})
]
"""The name of a secret, or its ARN."""


def check_secrets(secrets: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse variables that are in `environment` too, and those that belong to others."""
    for name in secrets:
        if name in environment:
            raise field_error(
                f"{name} is in `environment` as well: the script would get one of the two values",
                remedy="Remove one of the two.",
                below=(name,),
            )
        for prefix, reason in _RESERVED.items():
            if name.upper().startswith(prefix):
                raise field_error(
                    f"a secret cannot be given as {name}: {reason}",
                    remedy="Give it another name, and let the script read that.",
                    below=(name,),
                )
