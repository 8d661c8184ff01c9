"""Options of the command line that do not do what they look like."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Edit, Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.scripts.arguments import argument, constant, is_open
from launcher.scripts.edits import Places
from launcher.scripts.program import Program
from launcher.scripts.scopes import file_of
from launcher.scripts.values import UNKNOWN, External, Instance, alternatives

_OTHER_PARSERS = frozenset({"jsonargparse", "tap", "simple_parsing", "click", "typer"})
"""Libraries whose parsers may understand `type=bool`, or that are no argparse at all.

Not configargparse, which hands what stands in a file to argparse as words of the command line (its
`convert_item_to_command_line_arg`).
"""

_PARSERS = ("argparse.", "configargparse.")


@finds(Stage.SCRIPT, training_script.ENTRY_POINT_MISSING)
def switches_can_be_switched_off(program: Program) -> Iterator[Finding]:
    """`type=bool` of an argparse option: `--amp False` is True, as every text but the empty one is.

    A job's hyperparameters come as words, so `use_amp: false` switches it on, and nothing says so.

    Silent where another library's parser may be meant, and where an action is given: BooleanOptionalAction
    and an action of the script's own need not look at the type.

    Bad: `parser.add_argument("--amp", type=bool, default=True)`. Good:
    `parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)`.

    Source: Python documentation: argparse ("The bool() function is not recommended as a type converter").
    """
    if any(
        (each.module or "").partition(".")[0] in _OTHER_PARSERS
        for file in program.files
        for each in file.imports
    ):
        return
    for file in program.files:
        for call in file.calls_of.get("add_argument", ()):
            kind = argument(call, "type")
            if kind is None or program.value(kind) != External("bool") or not _is_argparse(program, call):
                continue
            if argument(call, "action") is not None:
                continue
            words = [each.value for each in call.args if isinstance(each, ast.Constant)]
            option = next((each for each in words if isinstance(each, str)), "the option")
            yield found(
                training_script.ENTRY_POINT_MISSING,
                call,
                f"{option} has type=bool, for which every text but the empty one is True: `{option} False` "
                "switches it on",
                remedy="Write action=argparse.BooleanOptionalAction, or action='store_true'.",
                severity=Severity.WARNING,
                fix=_fix(program, call, kind),
            )


def _is_argparse(program: Program, call: ast.Call) -> bool:
    """Whether the parser is argparse's: known to be, or unknown in a program that uses no other."""
    if not isinstance(call.func, ast.Attribute):
        return False
    parser = program.value(call.func.value)
    if parser is UNKNOWN:
        return any(each.module == "argparse" for file in program.files for each in file.imports)
    return all(isinstance(each, Instance) and each.name.startswith(_PARSERS) for each in alternatives(parser))


def _fix(program: Program, call: ast.Call, kind: ast.expr) -> Fix | None:
    """Another action in place of the type, where argparse takes it: a long option with a plain default."""
    file = file_of(call)
    if any(each.arg in ("nargs", "const", "choices", "metavar") for each in call.keywords) or is_open(call):
        return None
    names = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if not any(isinstance(each, str) and each.startswith("--") for each in names):
        return None
    default = constant(program, argument(call, "default"))
    if default is None or not isinstance(default.value, bool):
        return None
    module = next((each.name for each in file.imports if each.module == "argparse"), None)
    keyword = next(each for each in call.keywords if each.value is kind)
    if module is None:
        return None
    start, end = Places(file).span(keyword)
    edit = Edit(str(file.path), start, end, f"action={module}.BooleanOptionalAction")
    return Fix(safe=True, edits=(edit,))


RULES = (switches_can_be_switched_off,)
"""The rules of this family."""
