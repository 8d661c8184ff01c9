"""The options of a program without a parser of its own: absl's flags, and what tyro makes of a dataclass.

Source: abseil.io/docs/python/guides/flags; tyro's documentation, "Basics".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from launcher.program.dataflow import argument_of, constant_argument
from launcher.program.index import file_of
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.surroundings.parsers import DeclaredWords, ScriptParser, declare_fields
from launcher.program.values import Defined, Several

_ABSL = "absl.flags"
_DEFINED = tuple(
    f"{_ABSL}.DEFINE_{kind}"
    for kind in ("string", "integer", "float", "enum", "enum_class", "list", "bool", "boolean")
)
_SWITCHES = (f"{_ABSL}.DEFINE_bool", f"{_ABSL}.DEFINE_boolean")
_OF_FILES = ("ml_collections.config_flags.DEFINE_config_file",)
_REQUIRED = (f"{_ABSL}.mark_flag_as_required", f"{_ABSL}.mark_flags_as_required")


def flag_parsers(program: Program) -> Iterator[ScriptParser]:
    """What absl or tyro takes for the program, where it uses one of them."""
    yield from _absl_flags(program)
    yield from _tyro_fields(program)


def _absl_flags(program: Program) -> Iterator[ScriptParser]:
    reaches = program.analysis(Reachability).reaches
    found = [each for each in program.calls(*_DEFINED, *_OF_FILES) if reaches(each[0])]
    if not found:
        return
    found.sort(key=lambda one: (program.files.index(file_of(one[0])), one[0].lineno))
    parser = ScriptParser(found[0][0], [], abbreviates=False)
    required = {name for call, _ in program.calls(*_REQUIRED) for name in _names_in(program, call)}
    for call, kind in found:
        name = constant_argument(program, argument_of(call, "name", 0))
        if name is None or not isinstance(name.value, str):
            parser.knows_all = False
            continue
        settings: dict[str, Any] = {"required": True} if name.value in required else {}
        parser.declared.append(
            DeclaredWords(
                (f"--{name.value}",), settings, call, argument_of(call, "default", 1), kind in _SWITCHES
            )
        )
    yield parser


def _names_in(program: Program, call: ast.Call) -> Iterator[str]:
    """The flags that a call makes required."""
    given = program.value(call.args[0]) if call.args else None
    elements = given.node.elts if isinstance(given, Several) else call.args[:1]
    for each in elements:
        name = constant_argument(program, each)
        if name is not None:
            yield str(name.value)


def _tyro_fields(program: Program) -> Iterator[ScriptParser]:
    reaches = program.analysis(Reachability).reaches
    for call, _ in program.calls("tyro.cli"):
        kind = program.value(call.args[0]) if call.args else None
        if reaches(call) and isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef):
            parser = ScriptParser(call, [], abbreviates=False)
            declare_fields(program, kind.node, parser)
            flat = [each for each in parser.declared if not _is_of_fields(program, each.node)]
            parser.knows_all &= len(flat) == len(parser.declared)
            parser.declared = [*map(_as_switch, flat)]
            yield parser
            return


def _is_of_fields(program: Program, field: ast.AST) -> bool:
    """Whether a field is a dataclass itself, of whose fields tyro makes options such as `--model.width`."""
    kind = program.value(field.annotation) if isinstance(field, ast.AnnAssign) else None
    made = (
        kind.node.decorator_list if isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef) else []
    )
    return any((program.qualified(getattr(each, "func", each)) or "").endswith("dataclass") for each in made)


def _as_switch(words: DeclaredWords) -> DeclaredWords:
    """A field that is true or false takes no value: `--cuda`, `--no-cuda`."""
    if not any(each.startswith("--no_") for each in words.names[1:]):
        return words
    return DeclaredWords(words.names[:1], {"action": "store_true"}, words.node, words.default, is_switch=True)
