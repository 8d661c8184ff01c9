"""The parsers of a program: what it takes on its command line.

Those of argparse, HfArgumentParser with its dataclasses, click, typer and Fire, made by the script or by its
helpers.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.frozen import frozen
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    constant_argument,
    has_star_arguments,
    origins,
    text_beginning,
)
from launcher.program.index import (
    SCOPE,
    FileIndex,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    default_of,
    file_of,
    is_main_guard,
    last_name,
    parameters_of,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import catches, walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability, surely_runs
from launcher.program.ranks.training_loops import written_turns
from launcher.program.records import declaring_calls
from launcher.program.values import (
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    External,
    Instance,
    Made,
    Several,
    Value,
    alternatives,
)

_PARSER_CLASSES = ("argparse.ArgumentParser", "transformers.HfArgumentParser")
_GROUP_METHODS = ("add_argument_group", "add_mutually_exclusive_group")
_PARSER_SETTINGS = frozenset(
    {"description", "epilog", "formatter_class", "prog", "usage", "add_help", "allow_abbrev", "parents"}
) | {"conflict_handler", "argument_default", "dataclass_types"}
"""What a parser may be made with and still takes no other words."""

_HARMLESS_RECEIVERS = tuple(map(External, ("vars", "print", "isinstance", "type", "repr", "str")))
_PLAIN_ACTIONS = frozenset({"store", "append", "extend"})
_FLAG_ACTIONS = frozenset({"store_true", "store_false", "store_const", "append_const", "version", "help"})
_SWITCHES = ("store_true", "count")
_CONVERTERS: Mapping[str, type] = {"int": int, "float": float, "str": str}
_CONVERTERS_OF_CLICK = {"click.INT": int, "click.FLOAT": float, "click.STRING": str}


@frozen
class DeclaredWords:
    """An option or positional argument: what argparse would be told of it, and where it is declared.

    `default` is what stands there for its default, None where nothing does. `is_switch` says that it takes no
    value, also where `settings` leave that open, as the parser may be another one.
    """

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    node: ast.AST
    default: ast.expr | None = None
    is_switch: bool = False


@dataclass(slots=True)
class ScriptParser:
    """A parser of a program, and the place at which it reads the command line.

    `knows_all` says that nothing but `declared` adds to it, and `is_strict` that it refuses what it does not
    know; `ignores` that what it does not know is thrown away. `of_libraries` are the classes of libraries,
    by their full names, whose fields are options too, such as transformers.TrainingArguments.
    """

    reading: ast.AST
    declared: list[DeclaredWords]
    knows_all: bool = True
    is_strict: bool = True
    ignores: bool = False
    abbreviates: bool = True
    of_libraries: list[str] = field(default_factory=list)


def script_parsers(program: Program, *, in_some_runs: bool = False) -> Iterator[ScriptParser]:
    """The parsers that surely read the job's words; with `in_some_runs` those that may read them.

    Among the latter is that of Fire, which takes words by their places as well.
    """
    if in_some_runs:
        yield from _fire_parsers(program)
    if (_changes_argv(program) and not in_some_runs) or any(map(_is_hydra, program.files)):
        return
    names = ("parse_args", "parse_known_args", "parse_args_into_dataclasses")
    reads = [call for file in program.files for name in names for call in file.calls_of.get(name, ())]
    reads = [call for call in reads if program.analysis(Reachability).reaches(call)]
    reads = [call for call in reads if not isinstance(program.value(call.func), Defined)]
    reads = [call for call in reads if not _is_for_another_start(program, call)]
    before = {call: first for call in reads if (first := _first_reading(program, call)) in reads}
    for call in reads:
        if call in before.values() or not (in_some_runs or _reads_the_command_line(program, call)):
            continue
        first = before.get(call)
        parser = _parser_read_by(program, call, first)
        if parser is None:
            continue
        if first is not None and (other := _parser_read_by(program, first)) is not None:
            parser.declared = [*other.declared, *parser.declared]
            parser.knows_all &= other.knows_all
        parser.ignores = not parser.is_strict and len(reads) == 1 and _throws_the_rest_away(program, call)
        yield parser
    yield from _click_parsers(program)


def _parser_read_by(program: Program, call: ast.Call, first: ast.Call | None = None) -> ScriptParser | None:
    """The parser whose method reads words here; None where it may be one of several.

    It is not the one that has read at `first`, though both may have one name.
    """
    made = _receivers(program, call)
    if made is not None and first is not None:
        made -= _receivers(program, first) or set()
    if made is None or len(made) != 1:
        return None
    parser = ScriptParser(call, [])
    _declare_words(program, next(iter(made)), parser, set())
    parser.is_strict = not (
        last_name(call.func) == "parse_known_args" or argument_of(call, "return_remaining_strings")
    )
    if isinstance(argument_of(call, "args", 0), ast.List):
        # What the job leaves out may be among the words that the program adds.
        parser.declared = [_perhaps(each) for each in parser.declared]
    return parser


def _first_reading(program: Program, call: ast.Call) -> ast.Call | None:
    """The call of `parse_known_args` whose rest a parser reads: `_, rest = first.parse_known_args()`."""
    given = argument_of(call, "args", 0)
    value = None if given is None else program.value(given)
    is_rest = isinstance(value, Instance) and value.name.endswith(".parse_known_args") and value.item == 1
    return value.call if is_rest and isinstance(value, Instance) else None


def _is_for_another_start(program: Program, node: ast.AST, depth: int = 4) -> bool:
    """Whether something runs only where another file than the entry is the one that is started: below that
    file's main guard, or in a function that only what stands there calls."""
    if file_of(node) is program.entry:
        return False
    if any(isinstance(each, ast.If) and is_main_guard(each.test) for each in ancestors(node)):
        return True
    scope = scope_of(node).function
    function = None if scope is None else scope.node
    if not depth or not isinstance(function, ast.FunctionDef):
        return False
    sites = program.evaluation.callers.call_sites(function)
    return bool(sites) and all(_is_for_another_start(program, each.call, depth - 1) for each in sites or ())


def _is_hydra(file: FileIndex) -> bool:
    return any(
        (each.module or "").partition(".")[0] in ("hydra", "fire", "jsonargparse") for each in file.imports
    )


def _changes_argv(program: Program) -> bool:
    """Whether sys.argv may be other words than those that the job gives: it is only looked at by `[...]`."""
    for file in program.files:
        if "argv" in file.set_attributes:
            return True
        for use in (*file.attributes.get("argv", ()), *file.names.get("argv", ())):
            holder = parent_of(use)
            looked_at = isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Load)
            counted = isinstance(holder, ast.Call) and last_name(holder.func) in ("len", "print", "join")
            if program.value(use) == External("sys.argv") and not (looked_at or counted):
                return True
    return False


def _reads_the_command_line(program: Program, call: ast.Call) -> bool:
    """Whether a parser reads sys.argv here, in every run."""
    if (earlier := _first_reading(program, call)) is not None:
        return surely_runs(program, call) and _reads_the_command_line(program, earlier)
    given = argument_of(call, "args", 0)
    if has_star_arguments(call) or any(map(catches, ancestors(call))):
        return False
    if given is not None and program.value(given) != Constant(None):
        first = given.elts[0] if isinstance(given, ast.List) and given.elts else given
        words = first.value if isinstance(first, ast.Starred) else first
        if first is not given and words is first:
            return False
        written = file_of(given).source(words)
        if not (isinstance(words, ast.Subscript) and written.endswith("argv[1:]")):
            return False
    tests = [each for each in ancestors_in_function(call) if isinstance(each, ast.If | ast.match_case)]
    asking = [
        each for each in tests if isinstance(each, ast.If) and "argv" in file_of(each).source(each.test)
    ]
    return surely_runs(program, call) or bool(asking) or (not tests and _is_anybodys(program, call))


def _is_anybodys(program: Program, node: ast.AST) -> bool:
    """Whether something stands in a function of the entry that nobody sees called, as by a decorator."""
    function = scope_of(node).function
    if function is None or file_of(node) is not program.entry or not isinstance(function.node, FunctionNode):
        return False
    return program.evaluation.callers.call_sites(function.node) is None


def _throws_the_rest_away(program: Program, call: ast.Call) -> bool:
    """Whether nobody looks at what parse_known_args leaves, and nobody reads hyperparameters otherwise."""
    for file in program.files:
        if "SM_HP" in file.text or "hyperparameters.json" in file.text:
            return False
    holder = parent_of(call)
    if not isinstance(holder, ast.Assign) or not isinstance(holder.targets[0], ast.Tuple):
        return isinstance(holder, ast.Subscript)
    rest = holder.targets[0].elts[-1]
    if not isinstance(rest, ast.Name):
        return False
    uses = [each for each in file_of(call).names.get(rest.id, ()) if scope_of(each) is scope_of(call)]
    return not uses


def _parsers_in(
    program: Program, node: ast.expr, seen: frozenset[ast.Call] = frozenset()
) -> set[ast.AST] | None:
    """The parsers that an expression may be, by what makes them; None where that is open."""
    found = set[ast.AST]()
    for each in alternatives(program.value(node)):
        if isinstance(each, Instance) and each.name in _PARSER_CLASSES and SCOPE in each.call.__dict__:
            found.add(each.call)
        elif isinstance(each, Instance) and each.name.rpartition(".")[2] in _GROUP_METHODS:
            func = each.call.func
            inner = _parsers_in(program, func.value, seen) if isinstance(func, ast.Attribute) else None
            if inner is None:
                return None
            found |= inner
        elif isinstance(each, Instance) and each.call.args and each.call not in seen:
            # A function of a library that adds to a parser, and gives it back.
            found |= _parsers_in(program, each.call.args[0], seen | {each.call}) or set()
        elif isinstance(each, Made) and _is_parser_class(program, each.definition):
            found.add(each.definition)
        elif not isinstance(each, Instance | Made | External):
            return None
    return found


def _is_parser_class(program: Program, definition: ast.ClassDef) -> bool:
    return any(program.value(each) == External(_PARSER_CLASSES[0]) for each in definition.bases)


def _declare_words(program: Program, key: ast.AST, parser: ScriptParser, seen: set[ast.AST]) -> None:
    """Add what a parser is told by its class, its parents and everybody who may have it in hand."""
    seen.add(key)
    if isinstance(key, ast.Call):
        _declare_by_constructor(program, key, parser, seen)
    elif isinstance(key, ast.ClassDef):
        own = {each.name for each in key.body if isinstance(each, ast.FunctionDef)}
        parser.knows_all &= not own & {"parse_args", "parse_known_args", "add_argument", "error", "exit"}
    parser.knows_all &= not _is_handed_out(program, key)
    reach = program.analysis(Reachability)

    def reaches(call: ast.Call) -> bool:
        return reach.reaches(call) and not reach.is_in_unused_method(call)

    for file in program.files:
        others = [each for each in file.attributes.get("add_argument", ()) if not _is_called(each)]
        parser.knows_all &= len(others) <= len(file.aliases.get("add_argument", ()))
        for call in filter(reaches, declaring_calls(file)):
            made = _receivers(program, call)
            if made is None or key in made:
                turns = [_argparse_words(program, each) for each in written_turns(program, call)]
                declared = [each for each in turns if each is not None]
                parser.knows_all &= len(declared) == len(turns)
                parser.declared += map(_perhaps, declared) if made is None or len(turns) > 1 else declared
    for call in (each for file in program.files for each in file.calls_of.get("add_subparsers", ())):
        made = _receivers(program, call)
        if made is None or key in made:
            commands = _commands_of(program, call) if made else None
            places = [each for each in parser.declared if not each.names[0].startswith("-")]
            parser.knows_all &= commands is not None and not places
            parser.declared += [commands] if commands is not None and parser.knows_all else []


def _commands_of(program: Program, made: ast.Call) -> DeclaredWords | None:
    """The commands that subparsers know, to the first of which argparse leaves all the words after it."""
    texts = list[object]()
    for call in (each for file in program.files for each in file.calls_of.get("add_parser", ())):
        owner = program.value(getattr(call.func, "value", call.func))
        names = [constant_argument(program, one) for each in call.args[:1] for one in origins(program, each)]
        if not isinstance(owner, Instance) or not all(names) or argument_of(call, "aliases"):
            return None
        texts += [each.value for each in names if each and owner.call is made]
    return DeclaredWords(("command",), {"nargs": argparse.PARSER, "choices": texts}, made) if texts else None


def _is_called(function: ast.expr) -> bool:
    holder = parent_of(function)
    return isinstance(holder, ast.Call) and holder.func is function


def _receivers(program: Program, call: ast.Call) -> set[ast.AST] | None:
    """The parsers whose method is called, by its name or by a name for it: `add = parser.add_argument`."""
    method = origins(program, call.func)[0] if isinstance(call.func, ast.Name) else call.func
    return _parsers_in(program, method.value) if isinstance(method, ast.Attribute) else None


def _perhaps(declared: DeclaredWords) -> DeclaredWords:
    """What is declared to a parser that may be another one: its names, and how many values follow."""
    kept = {"nargs": declared.settings.get("nargs", "?")}
    positional = {} if declared.names[0].startswith("-") else {"required": False}
    return DeclaredWords(
        declared.names, {**kept, **positional}, declared.node, declared.default, declared.is_switch
    )


def _declare_by_constructor(
    program: Program, made: ast.Call, parser: ScriptParser, seen: set[ast.AST]
) -> None:
    given = {each.arg: each.value for each in made.keywords}
    parser.knows_all &= set(given) <= _PARSER_SETTINGS and not has_star_arguments(made)
    if (abbreviates := given.get("allow_abbrev")) is not None:
        parser.abbreviates = program.value(abbreviates) == Constant(True)
    parents = given.get("parents")
    for each in parents.elts if isinstance(parents, ast.List | ast.Tuple) else ():
        keys = _parsers_in(program, each)
        parser.knows_all &= keys is not None
        for key in (keys or set()) - seen:
            _declare_words(program, key, parser, seen)
    parser.knows_all &= parents is None or isinstance(parents, ast.List | ast.Tuple)
    if program.qualified(made.func) == _PARSER_CLASSES[1]:
        kinds = argument_of(made, "dataclass_types", 0)
        several = program.value(kinds) if kinds is not None else UNKNOWN
        for each in several.node.elts if isinstance(several, Several) else [kinds] if kinds else []:
            kind = program.value(each)
            if isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef):
                declare_fields(program, kind.node, parser)
            else:
                _declare_class_of_library(kind, parser)


def _is_handed_out(program: Program, key: ast.AST) -> bool:
    """Whether a parser is given to a function that is not of the program, which may add to it."""
    own = {
        each.name for file in program.files for each in file.functions if isinstance(each, ast.FunctionDef)
    }
    for file in program.files:
        if not {"ArgumentParser", "HfArgumentParser", "add_argument", "parse_args"} & file.mentioned:
            continue
        for call in file.calls:
            if isinstance(program.value(call.func), Defined) or last_name(call.func) in own:
                continue
            if call is key or program.value(call.func) in _HARMLESS_RECEIVERS:
                continue
            for each in all_arguments(call):
                if isinstance(each, ast.Name | ast.Attribute) and key in (_parsers_in(program, each) or ()):
                    return True
    return False


def _argparse_words(program: Program, call: ast.Call) -> DeclaredWords | None:
    """What one `add_argument` declares; None where its names or their number of values are not known."""
    names = [text_beginning(program, each) for each in call.args]
    given = {each.arg: each.value for each in call.keywords}
    if not names or has_star_arguments(call) or not all(each and each[1] for each in names):
        return None
    plain = {key: program.value(node) for key, node in given.items()}
    settings: dict[str, Any] = {}
    action = plain.get("action", Constant("store"))
    if action == External("argparse.BooleanOptionalAction"):
        settings["action"] = argparse.BooleanOptionalAction
    elif isinstance(action, Constant) and action.value in _FLAG_ACTIONS:
        settings["action"] = "store_true"
    elif action == Constant("count"):
        settings["action"] = "count"
    elif isinstance(action, Constant) and action.value in _PLAIN_ACTIONS:
        settings |= _value_settings(program, given)
    number = plain.get("nargs")
    if number == External("argparse.REMAINDER"):
        number = Constant(argparse.REMAINDER)
    if number is not None and "action" not in settings:
        if not isinstance(number, Constant) or number.value is None:
            return None
        settings["nargs"] = number.value
    words = tuple(each[0] for each in names if each)
    if words[0].startswith("-") and plain.get("required") == Constant(True) and surely_runs(program, call):
        settings["required"] = True
    return DeclaredWords(words, settings, call, given.get("default"), settings.get("action") in _SWITCHES)


def _value_settings(program: Program, given: Mapping[str | None, ast.expr]) -> dict[str, Any]:
    """The type and the choices of a value, as far as they are Python's own and written out."""
    settings: dict[str, Any] = {}
    kind = program.value(given["type"]) if "type" in given else External("str")
    if isinstance(kind, External) and kind.name in _CONVERTERS:
        settings["type"] = _CONVERTERS[kind.name]
        if "choices" in given and (choices := _literals(program, given["choices"])):
            settings["choices"] = choices
    return settings


def _literals(program: Program, node: ast.expr) -> list[Any] | None:
    if isinstance(node, ast.Call) and last_name(node.func) in ("list", "tuple", "sorted", "set", "keys"):
        inner = node.args[0] if node.args else getattr(node.func, "value", None)
        return None if inner is None else _literals(program, inner)
    several = program.value(node)
    elements = several.node.elts if isinstance(several, Several) else []
    if isinstance(several, Dictionary) and isinstance(several.node, ast.Dict):
        elements = [each for each in several.node.keys if each is not None]
        if len(elements) < len(several.node.keys):
            return None
    values = [program.value(each) for each in elements]
    plain = [each.value for each in values if isinstance(each, Constant)]
    return plain if plain and len(plain) == len(values) else None


def declare_fields(program: Program, definition: ast.ClassDef, parser: ScriptParser) -> None:
    """The options that HfArgumentParser makes of a dataclass's fields, those of its bases first."""
    for base in definition.bases:
        above = program.value(base)
        if (
            isinstance(above, Defined)
            and isinstance(above.node, ast.ClassDef)
            and above.node is not definition
        ):
            declare_fields(program, above.node, parser)
        else:
            _declare_class_of_library(above, parser)
    for each in definition.body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        given = {}
        made = each.value
        if isinstance(made, ast.Call):
            given = {keyword.arg: keyword.value for keyword in made.keywords}
            is_field = program.qualified(made.func) == "dataclasses.field"
            if not is_field or ("init" in given and program.value(given["init"]) == Constant(False)):
                parser.knows_all &= is_field
                continue
        name = each.target.id
        names = tuple(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))
        settings = _settings_by_annotation(program, each.annotation)
        if settings.pop("is_bool", False):
            names += tuple(f"--no_{name[2:]}" for name in names)
            settings["nargs"] = "?"
        if made is None or (isinstance(made, ast.Call) and not {"default", "default_factory"} & set(given)):
            settings["required"] = True
        parser.declared.append(DeclaredWords(names, settings, each, given.get("default", made)))


def _declare_class_of_library(kind: Value, parser: ScriptParser) -> None:
    """A class that is none of the program's: its fields are options, and not known here."""
    parser.knows_all = False
    if isinstance(kind, External):
        parser.of_libraries.append(kind.name)


def _settings_by_annotation(program: Program, annotation: ast.expr) -> dict[str, Any]:
    """The type of a value by an annotation: `int`, `Optional[int]`, `Literal[...]`, `list[int]`."""
    if isinstance(annotation, ast.BinOp):  # `int | None`; of `bool | float` either may be given.
        sides = (annotation.left, annotation.right)
        kinds = [each for each in sides if not (isinstance(each, ast.Constant) and each.value is None)]
        return _settings_by_annotation(program, kinds[0]) if len(kinds) == 1 else {}
    if isinstance(annotation, ast.Subscript):
        inner = annotation.slice
        match last_name(annotation.value):
            case "Optional":
                return _settings_by_annotation(program, inner)
            case "Literal":
                values = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                texts = [each.value for each in values if isinstance(each, ast.Constant)]
                return {"choices": texts} if all(isinstance(each, str) for each in texts) else {}
            case "list" | "List" | "Sequence":
                return {"nargs": "+", **_settings_by_annotation(program, inner)}
        return {}
    value = program.value(annotation)
    if value == External("bool"):
        return {"is_bool": True}
    if isinstance(value, Defined) and isinstance(value.node, ast.ClassDef):
        return _choices_of_enumeration(program, value.node)
    known = isinstance(value, External) and value.name in _CONVERTERS
    return {"type": _CONVERTERS[value.name]} if known and isinstance(value, External) else {}


def _choices_of_enumeration(program: Program, definition: ast.ClassDef) -> dict[str, Any]:
    bases = map(program.value, definition.bases)
    if not any(isinstance(each, External) and each.name.startswith("enum.") for each in bases):
        return {}
    members = [each.value for each in definition.body if isinstance(each, ast.Assign)]
    texts = [each.value for each in members if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return {"choices": texts} if texts and len(texts) == len(members) else {}


def _click_parsers(program: Program) -> Iterator[ScriptParser]:
    """The commands of click and typer that the program runs: the options of one, the names of several."""
    for file in program.files:
        for function in file.functions:
            if not isinstance(function, ast.FunctionDef) or not file.imports:
                continue
            kinds = [program.qualified(_called(each)) or "" for each in function.decorator_list]
            if {"click.command", "click.group"}.isdisjoint(kinds) or not _is_run(program, function):
                continue
            parser = ScriptParser(function, [], abbreviates=False)
            for decorator, kind in zip(function.decorator_list, kinds, strict=True):
                _declare_by_click(program, decorator, kind, parser)
            if "click.group" in kinds and not any(
                isinstance(each, ast.Call) and argument_of(each, "invoke_without_command")
                for each in function.decorator_list
            ):
                names = list(_commands_of_group(program, function))
                parser.declared.append(_one_of_commands(names, function))
                parser.knows_all &= None not in names
            yield parser
    if not program.unread:
        yield from _typer_parsers(program)


def _typer_parsers(program: Program) -> Iterator[ScriptParser]:
    """What `typer.run` runs, and the commands of an app that is called."""
    for call, _ in program.calls("typer.run"):
        target = program.value(call.args[0]) if call.args else None
        if isinstance(target, Defined) and isinstance(target.node, ast.FunctionDef):
            yield from _typer_command(program, call, target.node)
    methods = [f"typer.Typer.{name}" for name in ("command", "callback", "add_typer")]
    own = [each for each in program.calls(*methods) if _is_called_app(program, each[0])]
    if len(own) == 1 and own[0][1] == methods[0]:
        command = parent_of(own[0][0])
        if isinstance(command, ast.FunctionDef):
            yield from _typer_command(program, own[0][0], command)
    elif own:
        names = [_name_of_command(program, call) for call, name in own if name != methods[1]]
        yield ScriptParser(own[0][0], [_one_of_commands(names, own[0][0])], None not in names)


def _typer_command(program: Program, call: ast.Call, function: ast.FunctionDef) -> Iterator[ScriptParser]:
    if surely_runs(program, call):
        parser = ScriptParser(function, [], abbreviates=False)
        _declare_by_typer(program, function, parser)
        yield parser


def _is_called_app(program: Program, registration: ast.Call) -> bool:
    """Whether an app of typer is called, without which its commands are functions as others are."""
    if not isinstance(registration.func, ast.Attribute):
        return False
    app, name = program.value(registration.func.value), last_name(registration.func.value) or ""
    return any(
        program.value(call.func) == app and not _is_for_another_start(program, call)
        for file in program.files
        for known in (name, *file.aliases.get(name, ()))
        for call in file.calls_of.get(known, ())
    )


def _commands_of_group(program: Program, group: ast.FunctionDef) -> Iterator[str | None]:
    """The names of a click group's commands; None is one that is not known."""
    for file in program.files:
        for name in ("command", "group", "add_command"):
            for call in file.calls_of.get(name, ()):
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                if owner is not None and program.value(owner) == Defined(group):
                    yield None if name == "add_command" else _name_of_command(program, call)


def _name_of_command(program: Program, call: ast.Call) -> str | None:
    """The name of a command, which is the function's where none is given; None where that is not known.

    click takes away endings such as `_command` since its version 8.2.
    """
    given = constant_argument(program, argument_of(call, "name", 0))
    if given is not None and isinstance(given.value, str):
        return given.value
    function = parent_of(call)
    if not isinstance(function, ast.FunctionDef) or argument_of(call, "name", 0) is not None:
        return None
    name = function.name.lower().replace("_", "-")
    return None if name.endswith(("-command", "-cmd", "-group", "-grp")) else name


def _one_of_commands(names: Sequence[str | None], node: ast.AST) -> DeclaredWords:
    """The word that chooses a command, to which all words after it are left."""
    known = [each for each in names if each is not None]
    choices = {"choices": known} if known and len(known) == len(names) else {}
    return DeclaredWords(("command",), {"nargs": argparse.PARSER, **choices}, node)


def _fire_parsers(program: Program) -> Iterator[ScriptParser]:
    """The function of whose parameters Fire makes options, where it is given one."""
    calls = [call for call, _ in program.calls("fire.Fire") if not _is_for_another_start(program, call)]
    target = program.value(calls[0].args[0]) if len(calls) == 1 and calls[0].args else None
    if isinstance(target, Defined) and isinstance(target.node, ast.FunctionDef):
        function = target.node
        parser = ScriptParser(calls[0], [], knows_all=function.args.kwarg is None, abbreviates=False)
        for parameter in parameters_of(function):
            default = default_of(function, parameter.arg)
            settings = {"nargs": "?", **({"required": True} if default is None else {})}
            parser.declared.append(DeclaredWords((f"--{parameter.arg}",), settings, parameter, default))
        yield parser


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _is_run(program: Program, function: ast.FunctionDef) -> bool:
    """Whether a command is called without arguments, so that it reads the command line."""
    uses = (use for file in program.files for use in file.names.get(function.name, ()))
    return any(
        isinstance(call := parent_of(use), ast.Call)
        and call.func is use
        and program.value(use) == Defined(function)
        and not call.args
        and surely_runs(program, call)
        and not _is_for_another_start(program, call)
        for use in uses
    )


def _declare_by_click(program: Program, decorator: ast.expr, kind: str, parser: ScriptParser) -> None:
    """One decorator of a command: an option, an argument, or nothing of the command line."""
    if kind in ("click.command", "click.group", "click.version_option", "click.help_option"):
        parser.knows_all &= (
            not isinstance(decorator, ast.Call) or argument_of(decorator, "context_settings") is None
        )
        return
    if kind not in _DECLARING_BY_CLICK or not isinstance(decorator, ast.Call):
        if not kind.startswith(("torch.", "functools.", "click.pass_")):
            _declare_by_helper(program, decorator, parser)
        return
    for each in written_turns(program, decorator):
        _declare_option_of_click(program, each, kind, parser)


_DECLARING_BY_CLICK = ("click.option", "click.argument")


def _declare_by_helper(program: Program, decorator: ast.expr, parser: ScriptParser) -> None:
    """What the program's own decorator declares: in its body, or by the options that it has and is given."""
    found = dict(_click_calls(program, decorator, set()))
    for call, kind in found.items():
        _declare_by_click(program, call, kind, parser)
    is_plain = isinstance(decorator, ast.Name) or (isinstance(decorator, ast.Call) and not decorator.args)
    known = bool(found) or (is_plain and isinstance(program.value(_called(decorator)), Defined))
    parser.knows_all &= known and not any("__click_params__" in file.text for file in program.files)


def _click_calls(program: Program, node: ast.AST, seen: set[ast.AST]) -> Iterator[tuple[ast.Call, str]]:
    """The calls that make options in a piece of the program, in the functions and lists that it names."""
    seen.add(node)
    for part in walk(node):
        called = program.value(part.func) if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and isinstance(called, External) and called.name in _DECLARING_BY_CLICK:
            yield part, called.name
        elif isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load):
            for each in alternatives(program.value(part)):
                if isinstance(each, Instance) and each.name in _DECLARING_BY_CLICK:
                    yield each.call, each.name
                elif isinstance(each, Several | Defined) and each.node not in seen:
                    yield from _click_calls(program, each.node, seen)


def _declare_option_of_click(program: Program, decorator: ast.Call, kind: str, parser: ScriptParser) -> None:
    given = {each.arg: each.value for each in decorator.keywords}
    texts = [constant_argument(program, each) for each in decorator.args]
    words = [str(each.value) for each in texts if each is not None]
    if not words or len(words) != len(texts) or has_star_arguments(decorator) or "cls" in given:
        parser.knows_all = False
        return
    plain = {key: program.value(node) for key, node in given.items()}
    needed = plain.get("required") == Constant(True) and not {"envvar", "prompt", "default"} & set(given)
    if kind == "click.argument":
        optional = "default" in given or plain.get("required") == Constant(False) or "nargs" in given
        number = {"nargs": "*"} if "nargs" in given else {"required": not optional}
        parser.declared.append(DeclaredWords((words[0],), number, decorator, given.get("default")))
        return
    settings: dict[str, Any] = {"required": True} if needed else {}
    if plain.get("is_flag") == Constant(True) or "flag_value" in given or any("/" in each for each in words):
        settings["action"] = "store_true"
    elif plain.get("count") == Constant(True):
        settings["action"] = "count"
    else:
        settings |= _click_value(program, given)
    names = [name.strip() for each in words for name in each.split("/") if name.strip().startswith("-")]
    if names:
        is_switch = settings.get("action") in _SWITCHES
        parser.declared.append(
            DeclaredWords(tuple(names), settings, decorator, given.get("default"), is_switch)
        )


def _click_value(program: Program, given: Mapping[str | None, ast.expr]) -> dict[str, Any]:
    kind = program.value(given["type"]) if "type" in given else None
    if isinstance(kind, External):
        found = _CONVERTERS.get(kind.name) or _CONVERTERS_OF_CLICK.get(kind.name)
        return {"type": found} if found else {}
    of_choice = isinstance(kind, Instance) and kind.name == "click.Choice"
    if of_choice and isinstance(kind, Instance) and not kind.call.keywords and kind.call.args:
        choices = _literals(program, kind.call.args[0])
        return {"choices": choices} if choices else {}
    default = constant_argument(program, given.get("default"))
    if kind is None and default is not None and type(default.value) in (int, float):
        return {"type": type(default.value)}
    return {}


def _declare_by_typer(program: Program, function: ast.FunctionDef, parser: ScriptParser) -> None:
    """The words that typer makes of a function's parameters."""
    for parameter in parameters_of(function):
        annotation, default = parameter.annotation, default_of(function, parameter.arg)
        told = default if isinstance(default, ast.Call) else None
        has_default, meant = default is not None and told is None, default
        if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Annotated":
            parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            annotation = parts[0]
            told = next((each for each in parts[1:] if isinstance(each, ast.Call)), told)
        elif told is not None:
            first = argument_of(told, "default", 0)
            meant = first
            has_default = first is not None and not (isinstance(first, ast.Constant) and first.value is ...)
        kind = program.qualified(told.func) if told is not None else None
        settings = {} if annotation is None else _settings_by_annotation(program, annotation)
        is_flag = settings.pop("is_bool", False)
        if settings.pop("nargs", None):
            settings["action"] = "append"
        if kind == "typer.Argument" or (kind is None and not has_default):
            parser.declared.append(
                DeclaredWords((parameter.arg,), {**settings, "required": not has_default}, parameter, meant)
            )
            continue
        words = [str(each.value) for each in told.args if isinstance(each, ast.Constant)] if told else []
        names = [name for each in words for name in each.split("/") if name.startswith("-")]
        plain = parameter.arg.replace("_", "-")
        names = names or [f"--{plain}", *([f"--no-{plain}"] if is_flag else [])]
        if is_flag:
            settings = {"action": "store_true"}
        if not has_default and not (told and argument_of(told, "envvar")):
            settings["required"] = True
        parser.declared.append(DeclaredWords(tuple(names), settings, parameter, meant, is_flag))
