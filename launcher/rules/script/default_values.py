"""What expressions are in a run of the defaults: without options, or with those that a job gives.

One evaluation for all that a program leaves to its surroundings: the options of parsers, fields that a
parser fills in, environment variables that nobody sets, and the entries of configuration files.
"""

from __future__ import annotations

import ast

from launcher.program.dataflow import is_parsed_field
from launcher.program.evaluate import Evaluation
from launcher.program.index import Binding, BindingKind, attribute_of_getattr, last_name, parent_of
from launcher.program.process_environment import changed_variables
from launcher.program.program import Program
from launcher.program.surroundings.options import SET_ANYWAY, declared_in_run, declared_option, option_of
from launcher.program.values import (
    RANK_VARIABLES,
    UNKNOWN,
    Constant,
    Dictionary,
    Environment,
    External,
    Instance,
    Made,
    Value,
    like,
)
from launcher.rules.script.configuration_files import ConfigurationFiles, configured_constant


def default_constant(program: Program, node: ast.expr | None) -> Constant | None:
    """The number, text or switch that an expression is in a run of the defaults; None where that is open."""
    if node is None:
        return None
    known = program.value(node)
    if isinstance(known, Constant):
        return known
    found = program.analysis(DefaultValues).evaluation.value(node)
    return found if isinstance(found, Constant) else None


def default_number(program: Program, node: ast.expr) -> float | None:
    """The number that an expression is in a run of the defaults."""
    found = default_constant(program, node)
    number = None if found is None or isinstance(found.value, bool) else found.value
    return number if isinstance(number, int | float) else None


class DefaultValues:
    """The evaluation of a program's expressions in a run of the defaults."""

    def __init__(self, program: Program) -> None:
        """Nothing is evaluated before somebody asks."""
        self.program = program
        self.evaluation = Evaluation(program, program.evaluation.callers, self._assumed)
        self._set = {each.name for each in changed_variables(program)}

    def _assumed(self, node: ast.expr, environment: Environment | None) -> Value | None:
        """What the surroundings give an expression; None for what follows from the program itself."""
        match node:
            case ast.Attribute(ctx=ast.Load()):
                return self._of_attribute(node)
            case ast.Name(ctx=ast.Load()):
                option = option_of(self.program, node)
                return None if option is None else self._of_option(option.value, option.default)
            case ast.Subscript():
                return self._of_item(node)
            case ast.Call():
                return self._of_call(node)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as sign], comparators=[table]):
                if self.program.value(table) == External("os.environ"):
                    found = self._of_variable(left, like(node, ast.Constant(None)))
                    absent = found == Constant(None)
                    return Constant(absent is isinstance(sign, ast.NotIn)) if found is not None else None
        return None

    def _of_option(self, value: object, default: ast.expr) -> Value:
        if value is None and not isinstance(default, ast.Constant):
            return self.evaluation.value(default)
        plain = value is None or isinstance(value, bool | int | float | str)
        return Constant(value) if plain and "${" not in str(value) else UNKNOWN  # type: ignore[arg-type]

    def _of_attribute(self, node: ast.Attribute) -> Value | None:
        owner = self.program.value(node.value)
        flag = self._of_flag(owner, node.attr)
        if flag is not None:
            return flag
        if isinstance(owner, Made):
            return self._of_field(node)
        if isinstance(owner, Dictionary):
            return self._of_files(node) if self.program.value(node) is UNKNOWN else None
        option = option_of(self.program, node)
        if option is not None:
            return self._of_option(option.value, option.default)
        if isinstance(owner, Instance) and "pars" in owner.name.lower():
            return self._of_filled_option(node, owner)
        return self._of_files(node)

    def _of_field(self, node: ast.Attribute) -> Value | None:
        """A field that a parser may give another value than its default."""
        fields = self.program.evaluation.sources(node)
        if not any(map(is_parsed_field, fields)):
            return None
        option = option_of(self.program, node)
        if option is not None and (option.is_given or declared_in_run(self.program, node.attr)):
            return self._of_option(option.value, option.default)
        own = [each for each in fields if not is_parsed_field(each)]
        return self.evaluation.any_of(own, None) if own else None

    def _of_filled_option(self, node: ast.Attribute, owner: Instance) -> Value | None:
        """An option that the program sets itself where it has not been given: `if args.out is None:`."""
        declared = declared_in_run(self.program, node.attr)
        stores = [*self.evaluation.attributes.stores(node, owner)]
        if len(declared) != 1 or not stores:
            return None
        option = declared_option(self.program, declared[0], node.attr)
        if option is None:
            return None
        first = Binding(f"args.{node.attr}", BindingKind.ASSIGNED, declared[0], option.default)
        found = self.evaluation.filled(first, stores)
        return None if found is UNKNOWN else found

    def _of_flag(self, owner: Value, name: str) -> Value | None:
        """`FLAGS.rate` and `RATE.value` of absl."""
        call = owner.call if isinstance(owner, Instance) and owner.name.startswith(_DEFINING) else None
        if call is None or name != "value":
            if owner != External("absl.flags.FLAGS"):
                return None
            calls = [each for file in self.program.files for each in file.calls if _names_flag(each, name)]
            call = calls[0] if len(calls) == 1 else None
        given = (
            []
            if call is None
            else [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "default")]
        )
        return self.evaluation.value(given[0]) if given else None

    def _of_item(self, node: ast.Subscript) -> Value | None:
        """`vars(args)["rate"]`, `os.environ["NAME"]`, `config["rate"]` of a file."""
        if (read := self._as_attribute(node)) is not None:
            return self._of_attribute(read)
        if self.program.value(node.value) == External("os.environ"):
            return self._of_variable(node.slice, None)
        return self._of_files(node)

    def _as_attribute(self, node: ast.Subscript) -> ast.Attribute | None:
        key, table = self.program.value(node.slice), self.program.value(node.value)
        if (
            not isinstance(key, Constant)
            or not isinstance(key.value, str)
            or not isinstance(table, Instance | External)
        ):
            return None
        made = table.call.args[:1] if isinstance(table, Instance) and table.name == "vars" else []
        if isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
            made = [node.value.value]
        return like(node, ast.Attribute(made[0], key.value, ast.Load())) if made else None

    def _of_call(self, node: ast.Call) -> Value | None:
        name = self.program.qualified(node.func) or ""
        if name == "getattr" and len(node.args) > 1:
            read = attribute_of_getattr(node)
            return None if read is None else self._of_attribute(read)
        if name == "len" and node.args and self.program.qualified(node.args[0]) == "sys.argv":
            return Constant(1 + len(self.program.words or ()))
        if name in _READING_VARIABLES or name.startswith(_READERS):
            given = {each.arg: each.value for each in node.keywords}
            key = node.args[0] if node.args else given.get("key")
            default = (
                node.args[1] if len(node.args) > 1 else given.get("default", like(node, ast.Constant(None)))
            )
            return None if key is None else self._of_variable(key, default)
        if name == "omegaconf.OmegaConf.from_cli":
            return Dictionary(like(node, ast.Dict([], []))) if not self.program.words else None
        if name == "torch.cuda.is_available":
            return Constant(True)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            return self._of_files(node)
        return None

    def _of_variable(self, key: ast.expr, default: ast.expr | None) -> Value | None:
        """An environment variable: as the program or the job sets it, or else what its reader takes."""
        name = self.evaluation.value(key)
        if not isinstance(name, Constant) or not isinstance(name.value, str) or name.value in RANK_VARIABLES:
            return None
        given = (self.program.variables or {}).get(name.value)
        changes = [each for each in changed_variables(self.program) if each.name == name.value]
        if given is not None and not changes:
            return Constant(given)
        is_open = any(each.only_unset for each in changes) and SET_ANYWAY.fullmatch(name.value)
        if len(changes) == 1 and given is None and not is_open:
            return self.evaluation.value(changes[0].value)
        if changes or default is None or SET_ANYWAY.fullmatch(name.value):
            return None
        return self.evaluation.value(default)

    def _of_files(self, node: ast.expr) -> Value | None:
        if isinstance(parent_of(node), ast.Call) and isinstance(node, ast.Attribute) and node.attr == "get":
            return None
        files = self.program.analysis(ConfigurationFiles)
        held = configured_constant(files.entry(node, self.program.words or ())) if files.are_read else None
        return None if held is None or "${" in str(held.value) else held


_READING_VARIABLES = frozenset({"os.environ.get", "os.getenv", "os.environ.pop", "os.environ.setdefault"})
_READERS = ("environs.Env.", "decouple.config", "environ.Env.")
"""Libraries that read an environment variable, or else give a default."""
_DEFINING = "absl.flags.DEFINE_"


def _names_flag(call: ast.Call, name: str) -> bool:
    first = call.args[0] if call.args else None
    defines = (last_name(call.func) or "").startswith("DEFINE_")
    return defines and isinstance(first, ast.Constant) and first.value == name
