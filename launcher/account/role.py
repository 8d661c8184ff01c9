"""A role of the account, as plain data: who takes it on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

PolicyDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """A role; `trust` is the document that says who takes it on.

    What its policies amount to is asked of IAM (`launcher.account.permissions`), not read here.
    """

    arn: str
    name: str
    trust: PolicyDocument

    @property
    def trusted(self) -> tuple[str, ...]:
        """The principals of the statements that allow taking the role on: services, ARNs, `*`."""
        found: dict[str, None] = {}
        for statement in _list(self.trust.get("Statement")):
            principal = statement.get("Principal", {})
            values = principal.values() if isinstance(principal, Mapping) else [principal]
            if statement.get("Effect") == "Allow":
                found |= dict.fromkeys(name for value in values for name in _list(value))
        return tuple(found)


def parse_role(described: Mapping[str, Any]) -> Role:
    """A role from what GetRole answers."""
    trust = _document(described.get("AssumeRolePolicyDocument", {}))
    return Role(described["Arn"], described["RoleName"], trust)


def _document(described: Any) -> PolicyDocument:
    """A policy: IAM sends it percent-encoded, which the SDK undoes in most answers."""
    if isinstance(described, str):
        described = json.loads(unquote(described))
    document: PolicyDocument = described
    return document


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
