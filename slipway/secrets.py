"""The job's secrets: fetched before the script starts, given to its processes and to nobody else.

The job's request names them; their values come from AWS Secrets Manager, with the role that the container
has. In a run on the user's machine the launcher has put them into this process' environment.
"""

from __future__ import annotations

import importlib
import json
import typing
from collections.abc import Mapping
from typing import Any

from slipway.failure import BootError

VARIABLE = "SLIPWAY_SECRETS"
"""JSON: from the name of each variable to the name or the ARN of its secret."""

HERE_VARIABLE = "SLIPWAY_SECRETS_HERE"
"""Set where the values are in the environment already, under the variables' own names."""

_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 5, 10, 4
"""So that a service that cannot be reached is given up after about a minute (botocore, Config)."""

# That of collections.abc has no brackets before Python 3.9.
Connect = typing.Callable[[str], Any]
"""From a region to a client of Secrets Manager."""


def take_secrets(environment: dict[str, str], connect: Connect | None = None) -> dict[str, str]:
    """The values of the job's secrets, by variable; empty for a job without any.

    All that says something of them is taken out of `environment`. Raises BootError (IAM002), which names
    every secret that cannot be had, why, and the permission that is missing.
    """
    named = environment.pop(VARIABLE, None)
    here = environment.pop(HERE_VARIABLE, None)
    if not named:
        return {}
    wanted: dict[str, str] = json.loads(named)
    if here:
        return {variable: environment.pop(variable) for variable in wanted}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return _fetched(wanted, region, connect or _client)


def _fetched(wanted: Mapping[str, str], region: str | None, connect: Connect) -> dict[str, str]:
    found: dict[str, str] = {}
    problems: dict[str, str] = {}
    clients: dict[str, Any] = {}
    for variable, secret in wanted.items():
        try:
            place = secret.split(":")[3] if secret.startswith("arn:") else region
            if place is None:
                raise _Unusable("no region is known; name it by its ARN")
            clients[place] = clients.get(place) or connect(place)
            found[variable] = _value(clients[place].get_secret_value(SecretId=secret))
        except ImportError:
            problems[f"{secret} (for {variable})"] = (
                "the image has no boto3, with which secrets are fetched; add boto3 to the image"
            )
        except _Unusable as error:
            problems[f"{secret} (for {variable})"] = str(error)
        except Exception as error:  # botocore makes its exceptions when they are raised
            problems[f"{secret} (for {variable})"] = _why(error, str(place))
            if not hasattr(error, "response"):
                # Whoever was not reached would not be for the next one, and each takes its time.
                break
    if problems:
        told = "; ".join(f"{secret}: {problem}" for secret, problem in problems.items())
        raise BootError("IAM002", f"the script was not started without its secrets: {told}")
    return found


class _Unusable(Exception):
    """A secret that is there and does not help, with the reason."""


def _value(answer: Mapping[str, Any]) -> str:
    value: str | None = answer.get("SecretString")
    if value is None:
        raise _Unusable("its value is binary, which no environment variable holds; keep it as text")
    if not value or "\0" in value:
        raise _Unusable("its value holds a NUL, which no variable can" if value else "its value is empty")
    return value


def _why(error: Exception, region: str) -> str:
    answer: Mapping[str, Any] = getattr(error, "response", {}).get("Error", {})
    code, said = str(answer.get("Code", "")), str(answer.get("Message", error))
    if code == "AccessDeniedException" and "KMS" in said:
        code = "DecryptionFailure"
    known = {
        "AccessDeniedException": "the execution role may not secretsmanager:GetSecretValue on it; name it in "
        "`secrets` of the cluster file and deploy, or allow it in the role's policy",
        "DecryptionFailure": "the execution role may not kms:Decrypt with the key that encrypts it; name the "
        "key in `secret_keys` of the cluster file and deploy, or allow it in the role's policy",
        "ResourceNotFoundException": f"there is no such secret in {region}, or it has no value yet",
        "InvalidRequestException": f"it cannot be read now ({said})",
    }
    if code:
        return known.get(code, f"Secrets Manager answered {code}: {said}")
    return (
        f"Secrets Manager in {region} was not reached ({type(error).__name__}: {said}); in a network without "
        "NAT it needs an endpoint for secretsmanager, which `secrets` of the cluster file creates"
    )


def _client(region: str) -> Any:
    boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
    retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
    return boto3.client(
        "secretsmanager",
        region_name=region,
        config=config.Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries=retries),
    )
