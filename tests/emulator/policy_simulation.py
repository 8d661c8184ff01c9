"""IAM's simulation of a principal's policies, which moto does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from urllib.parse import unquote

from moto.core.responses import ActionResult
from moto.iam.exceptions import NotFoundException
from moto.iam.models import IAMBackend
from moto.iam.responses import IamResponse

from tests.emulator.iam_policy import Context, allows


@contextmanager
def emulated_simulation() -> Iterator[None]:
    """Within this, IAM simulates the policies of roles and users. Use inside `mock_aws`."""

    def simulate(response: IamResponse) -> ActionResult:
        statements = _statements(response.backend, response._get_param("PolicySourceArn"))
        context = {
            entry["ContextKeyName"]: entry["ContextKeyValues"]
            for entry in response._get_param("ContextEntries", [])
        }
        results = [
            {
                "EvalActionName": action,
                "EvalResourceName": resource,
                "EvalDecision": _decision(statements, action, resource, context),
            }
            for action in response._get_param("ActionNames", [])
            for resource in response._get_param("ResourceArns", ["*"])
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})

    with mock.patch.object(IamResponse, "simulate_principal_policy", simulate, create=True):
        yield


def _decision(statements: list[dict[str, Any]], action: str, resource: str, context: Context) -> str:
    if allows({"Statement": statements}, action, resource, context):
        return "allowed"
    denials = [{**each, "Effect": "Allow"} for each in statements if each["Effect"] == "Deny"]
    return "explicitDeny" if allows({"Statement": denials}, action, resource, context) else "implicitDeny"


def _statements(backend: IAMBackend, arn: str) -> list[dict[str, Any]]:
    """All statements of all policies of a user or role."""
    for principal in (*backend.roles.values(), *backend.users.values()):
        if principal.arn == arn:
            inline = principal.policies
            documents = [*(inline.values() if isinstance(inline, dict) else _of_user(inline))]
            documents += [policy.document for policy in principal.managed_policies.values()]
            return [each for document in documents for each in _listed(_parsed(document)["Statement"])]
    raise NotFoundException(f"The entity {arn} cannot be found.")


def _of_user(inline: Any) -> list[Any]:
    return [each["policy_document"] if isinstance(each, dict) else each for each in inline]


def _parsed(document: Any) -> dict[str, Any]:
    if isinstance(document, str):
        parsed: dict[str, Any] = json.loads(unquote(document))
        return parsed
    return dict(document)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
