"""The options that a script's parser declares: which of them an expression is, and its default."""

from __future__ import annotations

import ast

from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, is_parsed_field
from launcher.program.program import Program
from launcher.program.ranks.reachability import default_by_command_line
from launcher.program.values import Dictionary, Instance, like


def as_attribute(option: str) -> str:
    """`--num-workers` as argparse names it: `num_workers`."""
    return option.lstrip("-").replace("-", "_")


@frozen
class DeclaredOption:
    """An option, by `add_argument` or as the field of a class or the parameter of a function that a parser
    is given, with its default; `value` is that where it is a literal."""

    name: str
    value: bool | int | float | str | None
    node: ast.AST
    default: ast.expr


def default_of_option(program: Program, node: ast.expr) -> DeclaredOption | None:
    """The option that `args.workers` is, where a literal is its default."""
    found = option_of(program, node)
    return None if found is None or found.value is None else found


def option_of(program: Program, node: ast.expr) -> DeclaredOption | None:
    """The option that `args.workers` is; None where it is none, is declared twice, or set by the program."""
    if isinstance(node, ast.Name):
        default = default_by_command_line(program, node)
        return None if default is None else _option_with(node.id, default, default)
    if not isinstance(node, ast.Attribute):
        return None
    owner = program.value(node.value)
    is_other = isinstance(owner, Instance) and "pars" not in owner.name.lower()
    if is_other or isinstance(owner, Dictionary) or _is_set_by_program(program, node):
        return None
    fields = program.evaluation.sources(node)
    if any(map(is_parsed_field, fields)):
        given = [each.value for each in fields if each.value is not None]
        return _option_with(node.attr, given[0], given[0]) if len(given) == 1 else None
    declared = program.evaluation.attributes.options.declared.get(node.attr, ())
    found = [option for call in declared if (option := _declared(call, node.attr)) is not None]
    return found[0] if len(found) == 1 else None


def _is_set_by_program(program: Program, option: ast.Attribute) -> bool:
    """Whether an option may be set, by whatever name; `cfg.out = args.out` sets that of another object."""
    owner = program.value(option.value)
    stores = (each.node for file in program.files for each in file.set_attributes.get(option.attr, ()))
    values = (program.value(each.value) for each in stores if isinstance(each, ast.Attribute))
    return any(each == owner or not isinstance(each, Instance | Dictionary) for each in values)


def _declared(call: ast.Call, name: str) -> DeclaredOption | None:
    names = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if not any(as_attribute(each) == name for each in names if each.startswith("-")):
        return None
    default = argument_of(call, "default")
    if default is None and not any(each.arg in ("action", "required", None) for each in call.keywords):
        default = like(call, ast.Constant(None))
    dest = argument_of(call, "dest")
    is_renamed = dest is not None and not (isinstance(dest, ast.Constant) and dest.value == name)
    if is_renamed or default is None:
        return None
    return _option_with(name, call, default)


def _option_with(name: str, node: ast.AST, default: ast.expr) -> DeclaredOption:
    literal = default.value if isinstance(default, ast.Constant) else None
    value = literal if isinstance(literal, bool | int | float | str) else None
    return DeclaredOption(name, value, node, default)
