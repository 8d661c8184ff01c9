"""`secrets`: variables of the script's environment whose values AWS Secrets Manager keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from launcher.cluster.secret_ids import SECRET_ID
from launcher.documents.validation import refusal

SECRETS_VARIABLE: Final = "SLIPWAY_SECRETS"
"""The environment variable that tells the boot which secrets to fetch (`slipway/secrets.py`): JSON, from the
name of each variable to the name or the ARN of its secret."""

_RESERVED = {
    "AWS_": "the AWS SDKs in the container would take it for their own instead of the job's role",
    "SM_": "SageMaker's variables begin so, and the boot sets them",
    "SLIPWAY_": "the launcher's own variables begin so",
}
_ID = re.compile(SECRET_ID)


def _known_form(value: str) -> str:
    if not _ID.fullmatch(value):
        # Not shown: whoever mistakes the field writes the secret itself.
        raise refusal(
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
            raise refusal(
                f"{name} is in `environment` as well: the script would get one of the two values",
                remedy="Remove one of the two.",
                below=(name,),
            )
        for prefix, reason in _RESERVED.items():
            if name.upper().startswith(prefix):
                raise refusal(
                    f"a secret cannot be given as {name}: {reason}",
                    remedy="Give it another name, and let the script read that.",
                    below=(name,),
                )
