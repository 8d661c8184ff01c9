"""Whether the policies of a template allow a call, without AWS.

Actions and resources are matched by moto's own evaluator. Its conditions are no help here: it takes
an operator that it does not know, and a key that the call does not carry, as fulfilled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from moto.iam.access_control import IAMPolicyStatement, PermissionResult

Context = Mapping[str, str | Sequence[str]]
"""The values of the condition keys that a call carries; some keys have several."""

_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, given: wanted == given,
    "StringLike": lambda wanted, given: fnmatchcase(given, wanted),
    "ArnEquals": lambda wanted, given: fnmatchcase(given, wanted),
    "Bool": lambda wanted, given: wanted.lower() == given.lower(),
}


def allows(document: Mapping[str, Any], action: str, resource: str, context: Context) -> bool:
    """Whether some statement allows the call, and none denies it.

    The document has text in place of its references; the resource is `*` for an action that knows none.
    """
    matching = {
        statement["Effect"]
        for statement in document["Statement"]
        if _concerns(statement, action, resource) and _conditions_hold(statement, context)
    }
    return matching == {"Allow"}


def flat(value: Any, names: Mapping[str, str]) -> Any:
    """A template's value with its references replaced: by what `names` has for them, else `<NAME>`."""
    match value:
        case {"Ref": name} | {"Fn::ImportValue": name} | {"Fn::GetStackOutput": {"OutputName": name}}:
            return names.get(name, f"<{name}>")
        case {"Fn::GetAtt": [resource, attribute]}:
            return names.get(f"{resource}.{attribute}", f"<{resource}.{attribute}>")
        case {"Fn::Join": [delimiter, parts]}:
            return delimiter.join(flat(part, names) for part in parts)
        case dict():
            return {key: flat(each, names) for key, each in value.items()}
        case list():
            return [flat(each, names) for each in value]
    return value


def _concerns(statement: Mapping[str, Any], action: str, resource: str) -> bool:
    plain = {
        "Effect": "Allow",
        "Action": statement["Action"],
        "Resource": _patterns(statement["Resource"]),
    }
    return IAMPolicyStatement(plain).is_action_permitted(action, resource) is PermissionResult.PERMITTED


def _patterns(resources: str | list[str]) -> list[str]:
    """moto takes what stands between the stars as a regular expression, so a dot would match anything.

    A question mark of IAM's is any one character.
    """
    each = [resources] if isinstance(resources, str) else resources
    return ["*".join(map(re.escape, resource.split("*"))).replace(r"\?", ".") for resource in each]


def _conditions_hold(statement: Mapping[str, Any], context: Context) -> bool:
    return all(
        _holds(operator, _listed(wanted), _listed(context.get(key, [])))
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def _holds(operator: str, wanted: list[str], given: list[str]) -> bool:
    """Source: IAM user guide, reference_policies_elements_condition_operators and _multi-value-conditions.

    A key without a value is absent. An operator for one value never gets several here, as AWS warns of that.
    """
    if operator == "Null":
        return (not given) == (wanted == ["true"])
    if operator.startswith("ForAllValues:"):
        compare = _OPERATORS[operator.removeprefix("ForAllValues:")]
        return all(any(compare(one, value) for one in wanted) for value in given)
    if not given:
        return operator.endswith("IfExists")
    compare = _OPERATORS[operator.removesuffix("IfExists")]
    (value,) = given
    return any(compare(one, value) for one in wanted)


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
