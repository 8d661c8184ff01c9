"""Secrets of AWS Secrets Manager, as job files and cluster files name them: by name or by ARN."""

from __future__ import annotations

from typing import Final

SECRET_ID: Final = (
    r"^([A-Za-z0-9/_+=.@-]{1,512}"
    r"|arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}-[A-Za-z0-9]{6})$"
)
"""A secret's name, or its ARN, which ends in a hyphen and six characters that Secrets Manager chose (Secrets
Manager API reference, CreateSecret)."""

_CHOSEN_BY_THE_SERVICE = len("-AbCdEf")


def is_arn(secret: str) -> bool:
    """Whether a secret is named by its ARN."""
    return secret.startswith("arn:")


def secret_name(secret: str) -> str:
    """The name of a secret, whichever way it is named."""
    return secret.rpartition(":")[2][:-_CHOSEN_BY_THE_SERVICE] if is_arn(secret) else secret


def names_the_same(one: str, other: str) -> bool:
    """Whether two ways of naming a secret may mean the same one: of a name alone nobody knows the region."""
    if is_arn(one) and is_arn(other):
        return one == other
    return secret_name(one) == secret_name(other)
