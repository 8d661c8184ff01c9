"""Who acts in the account, as plain data: the role of a job, and what IAM lets a principal do, by
simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

PolicyDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """A role; `trust` is the document that says who takes it on.

    What its policies amount to is asked of IAM (`launcher.account.identities`), not read here.
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


@dataclass(frozen=True, slots=True)
class Permissions:
    """What IAM's simulation says a principal may not do: (action, resource) pairs.

    `denied` is certain for what the principal's own policies decide. `undecided` holds what they do
    not allow but the resource's policy may, as KMS keys often do: the simulation does not read those.
    """

    principal: str
    denied: tuple[tuple[str, str], ...]
    undecided: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Actions that a principal needs on each of some resources, in one simulation.

    `context` holds the condition keys that the real calls carry; where `resource_may_allow`, a policy
    of the resource's own is enough to allow them.
    """

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    resource_may_allow: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """IAM's word on one action and one resource; `explicit` where a statement denies it."""

    action: str
    resource: str
    allowed: bool
    explicit: bool
    resource_may_allow: bool = False


def parse_evaluation(evaluated: Mapping[str, Any], *, resource_may_allow: bool = False) -> Iterator[Decision]:
    """The decisions of one element of EvaluationResults: its resources', or its own without any."""
    action = evaluated["EvalActionName"]
    single = {
        "EvalResourceName": evaluated.get("EvalResourceName", "*"),
        "EvalResourceDecision": evaluated["EvalDecision"],
    }
    for each in evaluated.get("ResourceSpecificResults") or [single]:
        word = each["EvalResourceDecision"]
        yield Decision(
            action=action,
            resource=each["EvalResourceName"],
            allowed=word == "allowed",
            explicit=word == "explicitDeny",
            resource_may_allow=resource_may_allow,
        )


def permissions_of(principal: str, decisions: Iterable[Decision]) -> Permissions:
    """What these decisions leave a principal without."""
    denied: dict[tuple[str, str], None] = {}
    undecided: dict[tuple[str, str], None] = {}
    for each in decisions:
        if not each.allowed:
            certain = each.explicit or not each.resource_may_allow
            (denied if certain else undecided)[(each.action, each.resource)] = None
    return Permissions(principal, tuple(denied), tuple(undecided))


def principal_of(caller_arn: str) -> str | None:
    """The user or role that a caller acts as; None where there is none to simulate.

    The session of a role has an ARN of its own, which names the role but not its path: for a role with
    a path what is returned here is not yet its ARN. The root user and federated users have no policies
    that IAM could simulate. Source: IAM user guide, reference_identifiers (ARNs of sessions).
    """
    prefix, service, _, account, resource = caller_arn.split(":", 5)[1:]
    kind, _, name = resource.partition("/")
    if service == "iam" and kind == "user":
        return caller_arn
    if service == "sts" and kind == "assumed-role":
        return f"arn:{prefix}:iam::{account}:role/{name.partition('/')[0]}"
    return None
