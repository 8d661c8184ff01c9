"""The tables of attacks: every attack of a table against every command of it.

A kind's file has, for all of its attacks, `once`, a shell text that lays out the folder that each attack
gets a copy of, `environment`, and `tables`. A table has `attacks` and `commands`, both by name. A command is
the words that are run, in a shell that also makes the attack: `lay` prepares the folder (`rows: lay` makes
that of an attack which is a text alone), and `run` says how the words, `"$@"`, are run. Where a command has
a `place`, what was laid as x is put there. `only` names the commands that an attack is for.

What is expected (`Expected`) stands with the file, the table, the command, the attack, or under `but` with
the attack for one command; what is nearer wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
KINDS = ("environment", "inputs", "checkpoints", "local runs", "container", "secrets")


@dataclass(frozen=True, slots=True)
class Expected:
    """What an attack must come to, in so many `seconds` of the processor.

    `code`: one of these exit codes. `says`: regular expressions that what was printed matches; `never`:
    such that it does not. `as_healthy`: exit code and output are those without the attack. `writes`: patterns
    of paths that may be made, changed or deleted; nothing else may. `then`: a shell text that must succeed
    afterwards, and prints nothing. `tracebacks`: whether a script's own may be shown.
    """

    code: tuple[int, ...] = (0,)
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    as_healthy: bool = False
    writes: tuple[str, ...] = ()
    then: str = ""
    tracebacks: bool = False
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: its names, the folder it starts from, what it does to it, and the words that are run."""

    kind: str
    name: str
    command: str
    words: tuple[str, ...]
    once: str
    lay: str
    run: str
    environment: Mapping[str, str]
    expected: Expected

    def __str__(self) -> str:
        return f"{self.name} / {self.command}"


def attacks_of(kind: str) -> Iterator[Attack]:
    """The attacks of a kind, in the order of its tables."""
    file = read_table(kind)
    for table in file["tables"]:
        for name, row in table["attacks"].items():
            row = {"lay" if table.get("rows") == "lay" else "run": row} if isinstance(row, str) else row
            for command, told in table["commands"].items():
                told = {"words": told} if isinstance(told, str) else told
                if "only" in row and command not in row["only"]:
                    continue
                near = row.get("but", {}).get(command, {})
                yield Attack(
                    kind,
                    name,
                    command,
                    tuple(str(told["words"]).split()),
                    "\n".join((file.get("once", ""), table.get("once", ""))),
                    "\n".join(
                        (
                            table.get("lay", ""),
                            told.get("lay", ""),
                            near.get("lay", row.get("lay", "")),
                            _moved(told.get("place")),
                        )
                    ),
                    str(row.get("run") or table.get("run") or file.get("run") or '"$@"'),
                    {name: str(value) for name, value in file.get("environment", {}).items()},
                    _expected(file, table, told, row, near),
                )


def read_table(kind: str) -> dict[str, Any]:
    """The file of a kind as it stands."""
    content = yaml.load((FOLDER / f"{kind.replace(' ', '_')}.yaml").read_text("utf-8"), yaml.CSafeLoader)
    assert isinstance(content, dict)
    return content


def _moved(place: str | None) -> str:
    """What puts the file x where a command looks for it."""
    return f"rm -rf {place}; mv x {place}" if place else ""


def _expected(*levels: Mapping[str, Any]) -> Expected:
    found: dict[str, Any] = {}
    for level in levels:
        for field in fields(Expected):
            if field.name in level:
                value = level[field.name]
                many = str(field.type).startswith("tuple")
                found[field.name] = tuple(value if isinstance(value, list) else [value]) if many else value
    return Expected(**found)
