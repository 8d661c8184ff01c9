"""The options that a script's parser declares, and whether a job gives them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument
from launcher.scripts.program import Program

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option as `add_argument` declares it, with the literal that is its default."""

    name: str
    value: bool | int | float | str
    call: ast.Call


def default_of_option(program: Program, node: ast.expr) -> DeclaredOption | None:
    """The option that `args.workers` is; None where it is none, is declared twice, or set by the program."""
    if not isinstance(node, ast.Attribute):
        return None
    if any(file.set_attributes.get(node.attr) for file in program.files):
        return None
    found = [
        option
        for file in program.files
        for call in file.calls_of.get("add_argument", ())
        if (option := _declared(call, node.attr)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _declared(call: ast.Call, name: str) -> DeclaredOption | None:
    names = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if not any(as_attribute(each) == name for each in names if each.startswith("-")):
        return None
    default = argument(call, "default")
    if argument(call, "dest") is not None or not isinstance(default, ast.Constant):
        return None
    if not isinstance(default.value, bool | int | float | str):
        return None
    return DeclaredOption(name, default.value, call)


def as_attribute(option: str) -> str:
    """`--num-workers` as argparse names it: `num_workers`."""
    return option.lstrip("-").replace("-", "_")


def is_given(job: JobSpec, name: str) -> bool:
    """Whether a job gives an option, as hyperparameter or argument."""
    words = (argument.partition("=")[0] for argument in job.code.arguments)
    return any(as_attribute(each) == name for each in (*job.hyperparameters, *words))
