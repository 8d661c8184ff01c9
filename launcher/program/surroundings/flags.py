"""The options of a program without a parser of its own: absl's flags, and what tyro and simple_parsing make
of a dataclass.

Source: abseil.io/docs/python/guides/flags; tyro's documentation, "Basics"; simple-parsing's examples.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from typing import Any

from launcher.program.dataflow import argument_of, constant_argument
from launcher.program.index import file_of, last_name
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
    """What absl, tyro or simple_parsing takes for the program, where it uses one of them."""
    yield from _absl_flags(program)
    yield from _tyro_fields(program)
    yield from _fields_of_simple_parsing(program)


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
    parsers = list[ScriptParser]()
    for call, definition in _classes_given(program, "tyro.cli"):
        parser = ScriptParser(call, [], abbreviates=False)
        declare_fields(program, definition, parser)
        # Of the fields of a dataclass within tyro makes options such as `--model.width`.
        flat = [each for each in parser.declared if _class_of_field(program, each.node) is None]
        parser.knows_all &= len(flat) == len(parser.declared)
        parser.declared = [*map(_as_switch, flat)]
        parsers.append(parser)
    # Of several classes, as of one for each environment, which one holds follows from what is given.
    defaults: dict[tuple[str, ...], set[str]] = {}
    for each in (each for parser in parsers for each in parser.declared):
        defaults.setdefault(each.names, set()).add("" if each.default is None else ast.unparse(each.default))
    for parser in parsers[:1]:
        same = [each for each in parser.declared if len(defaults[each.names]) == 1]
        parser.knows_all &= len(same) == len(parser.declared)
        parser.declared = same
        yield parser


def _classes_given(program: Program, *names: str) -> Iterator[tuple[ast.Call, ast.ClassDef]]:
    """The reached calls of these names whose first argument is a class of the program, with that class."""
    reaches = program.analysis(Reachability).reaches
    for call, _ in program.calls(*names):
        kind = program.value(call.args[0]) if call.args else None
        if reaches(call) and isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef):
            yield call, kind.node


def _fields_of_simple_parsing(program: Program) -> Iterator[ScriptParser]:
    """The fields of dataclasses and of those within them, all by their own names.

    Source: simple-parsing 0.1, examples/nesting and simple_parsing.ConflictResolution.
    """
    names = ("simple_parsing.parse", "simple_parsing.ArgumentParser.add_arguments")
    parser: ScriptParser | None = None
    for call, definition in _classes_given(program, *names):
        parser = parser or ScriptParser(call, [], abbreviates=False)
        _declare_nested(program, definition, parser, 4)
    if parser is not None:
        yield parser


def _declare_nested(program: Program, definition: ast.ClassDef, parser: ScriptParser, depth: int) -> None:
    own = ScriptParser(parser.reading, [])
    declare_fields(program, definition, own)
    parser.knows_all &= own.knows_all
    for each in own.declared:
        inner = _class_of_field(program, each.node)
        commands = [] if inner is not None else list(_commands_in_field(program, each.node))
        if commands:
            chosen = {"nargs": argparse.PARSER, "choices": commands}
            parser.declared.append(DeclaredWords((each.names[0].lstrip("-"),), chosen, each.node))
        elif inner is None:
            parser.declared.append(each)
        elif depth:
            _declare_nested(program, inner, parser, depth - 1)


def _commands_in_field(program: Program, field: ast.AST) -> Iterator[str]:
    """The commands that a field of one of several dataclasses chooses from: `run: Train | Eval`."""
    annotation = field.annotation if isinstance(field, ast.AnnAssign) else None
    kinds: list[ast.expr] = []
    if isinstance(annotation, ast.BinOp):
        kinds = [annotation.left, annotation.right]
    elif isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Union":
        kinds = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    for kind in map(program.value, kinds):
        if isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef):
            yield kind.node.name.lower()


def _class_of_field(program: Program, field: ast.AST) -> ast.ClassDef | None:
    """The dataclass that a field is itself; None of a plain one."""
    kind = program.value(field.annotation) if isinstance(field, ast.AnnAssign) else None
    node = kind.node if isinstance(kind, Defined) else None
    if not isinstance(node, ast.ClassDef):
        return None
    names = (program.qualified(getattr(each, "func", each)) or "" for each in node.decorator_list)
    return node if any(name.endswith("dataclass") for name in names) else None


def _as_switch(words: DeclaredWords) -> DeclaredWords:
    """A field that is true or false takes no value: `--cuda`, `--no-cuda`."""
    if not any(each.startswith("--no_") for each in words.names[1:]):
        return words
    return DeclaredWords(words.names[:1], {"action": "store_true"}, words.node, words.default, is_switch=True)
