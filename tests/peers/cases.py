"""The cases of our peers' own tests, read from the data files beside this module.

A file has groups, a group has cases. What a group says of the job (`base`), of the test, of the peer's answer
and of codes holds for each of its cases that says nothing else. `peer` is the peer's answer, `expected` what
is right where that is another, with the `reason`. `open` is what is missing where we do not answer so yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent

PASSES = ("accepted", "warned")
"""The two answers with which a job starts: a peer that accepts may or may not warn as well."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: `given` is what it is about, in our terms.

    `by` are the codes of which one must be among the findings where the answer is not simply a yes.
    """

    file: str
    group: str
    id: str
    kind: str
    test: str
    peer: str
    expected: str
    by: tuple[str, ...]
    reason: str | None
    open: str | None
    given: Mapping[str, Any]

    @property
    def agrees_with_peer(self) -> bool:
        """Whether what we expect is what the peer says."""
        return self.expected == self.peer or {self.expected, self.peer} <= set(PASSES)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, in the order of the files' names and of their lines."""
    return tuple(case for file in sorted(FOLDER.glob("*.yaml")) for case in _cases(file))


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the changes, mappings within mappings merged; null takes a key out."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = merged({}, value) if isinstance(value, dict) else value
    return result


def _cases(file: Path) -> list[Case]:
    document = yaml.safe_load(file.read_text("utf-8"))
    found = []
    for group in document["groups"]:
        layers = (document.get("base", {}), group.get("base", {}))
        for case in group["cases"]:
            said = {**group, **case}
            by = said.get("by") or ()
            found.append(
                Case(
                    file=file.name,
                    group=group["name"],
                    id=case["id"],
                    kind=group.get("kind", document["kind"]),
                    test=said["test"],
                    peer=said["peer"],
                    expected=said.get("expected", said["peer"]),
                    by=(by,) if isinstance(by, str) else tuple(by),
                    reason=case.get("reason"),
                    open=case.get("open"),
                    given={**case, "layers": (*layers, case.get("job", {}))},
                )
            )
    return found
