"""Write docs/reference/command-line.md from the commands themselves.

The options come from launcher/cli/, as `--help` prints them, everything else from
tools/generate/pages/command-line.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from cyclopts import App

from launcher.cli.app import app
from tools.generate.generated import ROOT, filled_in, table_of

PAGE = ROOT / "docs" / "reference" / "command-line.md"

LAUNCH = "launch"
"""What the page calls the command that takes a job file and no other word."""


def generated() -> dict[Path, str]:
    """What the page should hold now."""
    return {PAGE: filled_in(PAGE, __name__, "launcher/cli/", {name: table(name) for name in commands()})}


def commands() -> dict[str, App]:
    """Every command by its name, `launch` itself the first."""
    return {LAUNCH: app, **dict(_below(app))}


def _below(parent: App, prefix: str = "") -> Iterator[tuple[str, App]]:
    """The commands below another; one that only groups others is none itself."""
    for name in parent:
        if not name.startswith("-"):
            inner = list(_below(parent[name], f"{prefix}{name} "))
            yield from inner or [(f"{prefix}{name}", parent[name])]


def options(name: str) -> set[str]:
    """The options of a command, such as `--live`, with those that every command has."""
    of_command = {
        option for argument in _arguments(name) for option in argument.names if option.startswith("--")
    }
    flags = {"--version", "--install-completion", "--shell"} if name == LAUNCH else set()
    of_all = {"--help", "--debug", *flags}
    return of_command | of_all


def table(name: str) -> str:
    """The arguments and options of a command as Markdown; a sentence where it has none."""
    rows = [_row(argument) for argument in _arguments(name)]
    if not rows:
        return "It has no options.\n"
    return table_of(("option", "value", "meaning"), rows)


def _arguments(name: str) -> Iterator[Any]:
    yield from commands()[name].assemble_argument_collection()


def _row(argument: Any) -> tuple[str, str, str]:
    positional = argument.field_info.kind is not Parameter.KEYWORD_ONLY
    value, repeated = _value(argument.hint)
    default = argument.field_info.default
    words = [value]
    if repeated and not positional:
        words.append("may be given several times")
    if isinstance(default, str | int) and not isinstance(default, bool):
        words.append(f"default `{default}`")
    if argument.required:
        words.append("required")
    name = argument.names[0].lstrip("-").upper() if positional else argument.names[0]
    return f"`{name}`", ", ".join(word for word in words if word), argument.parameter.help


def _value(hint: Any) -> tuple[str, bool]:
    """What a value is, in words, and whether there may be several; nothing for a switch."""
    inner = [each for each in get_args(hint) if each not in (NoneType, Ellipsis)]
    if get_origin(hint) in (list, tuple):
        return _value(inner[0])[0], True
    if inner:
        return _value(inner[0])
    if issubclass(hint, bool):
        return "", False
    if issubclass(hint, Enum):
        return " or ".join(f"`{each.value}`" for each in hint), False
    return {int: "whole number", float: "number", Path: "path"}.get(hint, "text"), False
