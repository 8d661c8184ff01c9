"""The environment variables that a program sets, for itself and the processes that it starts.

Variables by assignment, by `update` and `setdefault`, from tables, through functions, decorators and contexts
of the program; what goes into a copy of the environment is not its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from launcher.frozen import frozen, frozen_by_identity
from launcher.program.call_graph import CallSite
from launcher.program.dataflow import (
    constant_argument,
    has_star_arguments,
    origins,
    origins_of_binding,
)
from launcher.program.index import (
    Binding,
    BindingKind,
    FileIndex,
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    function_of_parameter,
    last_name,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program, extra_keywords
from launcher.program.surroundings.commands import environment_given, torchrun_commands
from launcher.program.values import (
    UNKNOWN,
    Constant,
    External,
    Instance,
    alternatives,
    elements_of,
    is_path,
    library_names,
    like,
    names_given,
    pairs_of,
    with_names_replaced,
)

_ENVIRON = External("os.environ")
_ASKED_FOR = (_ENVIRON, External("os.getenv"))
_SETTERS = ("os.environ.setdefault", "os.environ.update", "os.environ.__setitem__", "os.putenv")
_DEEPEST_SETTER = 4
"""So many functions between what sets a variable and who says which."""


@frozen_by_identity
class ChangedVariable:
    """One variable that is set: to the expression `value`, which is written at `node`, an entry of a table
    perhaps, where `runs` runs: the statement, or the call of a function that does so. `only_unset`: a value
    which the launcher gave stays. `as_text`: the program makes a string of it. `written_in`: a file of it."""

    name: str
    value: ast.expr
    node: ast.AST
    runs: ast.AST
    only_unset: bool = False
    as_text: bool = False
    written_in: str = ""


def changed_variables(program: Program) -> list[ChangedVariable]:
    """Every variable that the program puts into os.environ.

    By assignment, `update`, `setdefault`, `|=`, `os.putenv`; in a loop over names or pairs that are written
    out; and by a function, for each of its calls. What has no constant name is left out."""
    return program.analysis(_find_changes)


def variables_of_ranks(program: Program) -> list[ChangedVariable]:
    """What the program puts into os.environ, and into the environment of a torchrun that it starts."""
    return [*changed_variables(program), *program.analysis(_find_handed_on)]


def _find_handed_on(program: Program) -> list[ChangedVariable]:
    changes = _EnvironmentChanges(program)
    return [each for call, _ in torchrun_commands(program) for each in changes.handed_on(call)]


def _find_changes(program: Program) -> list[ChangedVariable]:
    changes = _EnvironmentChanges(program)
    files = program.mentioning("environ", "putenv")
    found = [*(each for file in files for each in changes.of_file(file)), *changes.by_calls()]
    place = {file: number for number, file in enumerate(program.files)}
    found.sort(key=lambda each: (place[file_of(each.runs)], *_begin_of(each.runs), *_begin_of(each.node)))
    return found


def _begin_of(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def variables_in(program: Program, node: ast.expr, depth: int = 4) -> set[str]:
    """The environment variables from which an expression is made."""
    found = set[str]()
    for each in walk(node):
        key: ast.expr | None = None
        if isinstance(each, ast.Subscript) and program.value(each.value) == _ENVIRON:
            key = each.slice
        elif isinstance(each, ast.Call) and program.qualified(each.func) in ("os.environ.get", "os.getenv"):
            key = each.args[0] if each.args else None
        elif depth and isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load):
            made = [one for one in origins(program, each) if one is not None and one is not each]
            found |= set[str]().union(*(variables_in(program, one, depth - 1) for one in made))
        name = constant_argument(program, key)
        if name is not None:
            found.add(str(name.value))
    return found


def mentions_environment(program: Program, test: ast.expr) -> bool:
    """Whether a test asks for environment variables, so that it tells who started the program."""
    named = (each for each in walk(test) if isinstance(each, ast.Name | ast.Attribute))
    read = (each for each in named if isinstance(each.ctx, ast.Load))
    asks = ("is_torchelastic_launched", "is_torchrun")
    return any(last_name(each) in asks or program.value(each) in _ASKED_FOR for each in read)


@frozen
class _SettingWay:
    """How variables are set, as in ChangedVariable, or all but None; without a node the value is shown."""

    runs: ast.AST
    node: ast.AST | None = None
    only_unset: bool = False
    as_text: bool = False
    but_none: bool = False
    depth: int = _DEEPEST_SETTER


class _EnvironmentChanges:
    """The changes of os.environ in one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def of_file(self, file: FileIndex) -> Iterator[ChangedVariable]:
        """By assignment to an item, and by `|=`."""
        for kind in (ast.Assign, ast.AugAssign):
            for statement in file.nodes(kind):
                for target in getattr(statement, "targets", None) or [statement.__dict__["target"]]:
                    value = statement.__dict__["value"]
                    if isinstance(target, ast.Subscript) and self._is_environ(target.value):
                        yield from self._of_key(target.slice, value, _way_of(statement))
                    elif (
                        isinstance(statement, ast.AugAssign)
                        and isinstance(statement.op, ast.BitOr)
                        and last_name(target) in self.program.known_as({"environ"})
                        and self._is_environ(target)
                    ):
                        yield from self._of_mapping(value, _SettingWay(statement))

    def by_calls(self) -> Iterator[ChangedVariable]:
        """By the methods of os.environ."""
        if not self.program.mentioning("environ", "putenv"):
            return  # Of every `update` of a program few are of it.
        for call, name in self.program.calls(*_SETTERS):
            methods = origins(self.program, call.func)
            if not all(self._is_no_copy(each.value) for each in methods if isinstance(each, ast.Attribute)):
                continue
            if name == "os.environ.update":
                yield from self._of_arguments(call, _SettingWay(call))
            elif len(pair := _spread(call)) == 2:
                only_unset = name == "os.environ.setdefault"
                yield from self._of_key(pair[0], pair[1], _SettingWay(call, call, only_unset))

    def handed_on(self, start: ast.Call) -> Iterator[ChangedVariable]:
        """What an environment that is made for a command holds besides the program's own: as it is made, and
        by what the same function goes on to do with it."""
        given = environment_given(self.program, start)
        for made in () if given is None else origins(self.program, given):
            if isinstance(made, ast.Call) and last_name(made.func) in ("dict", "ChainMap"):
                yield from self._of_arguments(made, _SettingWay(made))
            elif made is not None:
                yield from self._of_mapping(made, _SettingWay(made))
        if not isinstance(given, ast.Name):
            return
        file, scope = file_of(start), scope_of(start)
        for statement in (*file.nodes(ast.Assign), *file.nodes(ast.AugAssign)):
            target = (getattr(statement, "targets", None) or [statement.__dict__["target"]])[0]
            held = target.value if isinstance(target, ast.Subscript) else target
            if scope_of(statement) is not scope or last_name(held) != given.id:
                continue
            if isinstance(target, ast.Subscript):
                yield from self._of_key(target.slice, statement.__dict__["value"], _way_of(statement))
            elif isinstance(statement, ast.AugAssign):
                yield from self._of_mapping(statement.value, _SettingWay(statement))
        for call in (*file.calls_of.get("update", ()), *file.calls_of.get("setdefault", ())):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if not isinstance(owner, ast.Name) or owner.id != given.id or scope_of(call) is not scope:
                continue
            if last_name(call.func) == "update":
                yield from self._of_arguments(call, _SettingWay(call))
            elif len(call.args) == 2:
                yield from self._of_key(call.args[0], call.args[1], _SettingWay(call, call, only_unset=True))

    def _of_arguments(self, call: ast.Call, how: _SettingWay) -> Iterator[ChangedVariable]:
        """The variables that a call such as `update(A="1")` names, and those of tables that it is given."""
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield self._change(keyword.arg, keyword.value, how)
        for given in (*call.args, *(each.value for each in call.keywords if each.arg is None)):
            yield from self._of_mapping(given, how)

    def _is_environ(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name) and not isinstance(target.ctx, ast.Load):
            target = like(target, ast.Name(target.id, ast.Load()))
        if isinstance(target, ast.Attribute) and not isinstance(target.ctx, ast.Load):
            return self.program.value(target.value) == External("os")
        return self.program.value(target) == _ENVIRON and self._is_no_copy(target)

    def _is_no_copy(self, mapping: ast.expr) -> bool:
        """Whether something is os.environ itself, and no `os.environ.copy()` for another process."""
        return not any(isinstance(each, ast.Call) for each in origins(self.program, mapping))

    def _change(self, name: str, value: ast.expr, how: _SettingWay) -> ChangedVariable:
        only_unset = how.only_unset or _is_tested_before(self.program, how.runs)
        as_text = how.as_text or (how.but_none and self.program.value(value) == Constant(None))
        return ChangedVariable(name, value, how.node or value, how.runs, only_unset, as_text)

    def _part_of_whole(self, node: ast.expr) -> ast.expr:
        """Of a name in `name, value = line.split("=")` its part of the whole; anything else as it is."""
        for each in self._bound_to(node):
            if each.kind is BindingKind.ASSIGNED and each.item is not None and each.value is not None:
                return like(node, ast.Subscript(each.value, like(node, ast.Constant(each.item)), ast.Load()))
        return node

    def _of_key(self, key: ast.expr, value: ast.expr, how: _SettingWay) -> Iterator[ChangedVariable]:
        key, value = self._part_of_whole(key), self._part_of_whole(value)
        bound = [each for part in walk(key) for each in self._bound_to(part)]
        looped = [each for each in bound if each.kind is BindingKind.LOOPED]
        bindings = looped or (bound if isinstance(key, ast.Name) else [])
        kind = bindings[0].kind if bindings else None
        if kind not in (BindingKind.LOOPED, BindingKind.PARAMETER):
            name = self.program.value(key)
            if isinstance(name, Constant) and isinstance(name.value, str):
                yield self._change(name.value, value, how)
            return
        as_text = isinstance(value, ast.Call) and self.program.qualified(value.func) == "str"
        if isinstance(value, ast.Call) and as_text and len(value.args) == 1:
            value, how = value.args[0], replace(how, as_text=True)
        if kind is BindingKind.LOOPED:
            yield from self._in_loop(bindings[0].node, key, value, how)
        elif isinstance(bindings[0].node, ast.arg) and how.depth:
            yield from self._in_calls(bindings[0].node, value, how)

    def _in_loop(
        self, loop: ast.AST, key: ast.expr, value: ast.expr, how: _SettingWay
    ) -> Iterator[ChangedVariable]:
        """`for name, value in {...}.items(): os.environ[name] = value`."""
        if not isinstance(loop, ast.For | ast.comprehension):
            return
        names = [last_name(each) for each in getattr(loop.target, "elts", [])]
        listed = elements_of(self.program.value(loop.iter), self.program.value, loop.iter)
        for each in listed or ():
            given = names_given(loop.target, each, self.program.value)
            if given and not self._is_bound_again(value, loop) and not self._is_left_out(given, how.runs):
                own, other = with_names_replaced(key, given), with_names_replaced(value, given)
                yield from self._of_key(own, other, replace(how, node=[*given.values()][-1]))
        if (
            listed is None
            and len(names) == 2
            and names[0] == last_name(key)
            and not self._is_bound_again(value, loop)
        ):
            other = None if isinstance(value, ast.Name) and value.id == names[1] else value
            yield from self._of_mapping(loop.iter, how, other)

    def _is_left_out(self, given: Mapping[str, ast.expr], runs: ast.AST) -> bool:
        """Whether a test around it is surely false for an element: `if group == wanted`."""
        around = (each.test for each in ancestors(runs) if isinstance(each, ast.If))
        tests = [with_names_replaced(each, given) for each in around]
        parts = [part for each in tests for part in (each.values if isinstance(each, ast.BoolOp) else [each])]
        whole = not any(isinstance(getattr(each, "op", None), ast.Or) for each in tests)
        return whole and any(self.program.value(each) == Constant(False) for each in parts)

    def _is_bound_again(self, value: ast.expr, loop: ast.For | ast.comprehension) -> bool:
        """Whether a loop gives one of its variables another value first: `value = str(value)`."""
        used = (each for each in walk(value) if isinstance(each, ast.Name))
        bound = [self.program.evaluation.sources(each) for each in used]
        return any(len(each) > 1 and any(one.node is loop for one in each) for each in bound)

    def _in_calls(self, parameter: ast.arg, value: ast.expr, how: _SettingWay) -> Iterator[ChangedVariable]:
        """`def set_variable(name, value): os.environ[name] = value`."""
        function = function_of_parameter(parameter)
        for site, setting in self._calls_of(function, how):
            given = site.given_or_default(parameter)
            source = self._parameter(value, function)
            taken = value if source is None else site.given_or_default(source)
            if given is not None and taken is not None:
                yield from self._of_key(given, taken, setting)

    def _calls_of(
        self, function: FunctionNode | None, how: _SettingWay
    ) -> Iterator[tuple[CallSite, _SettingWay]]:
        """The calls of a function that sets variables, where it does so under no test but one of them."""
        if function is None or not self._surely_sets(function, how.runs):
            return
        unset = how.only_unset or _is_tested_before(self.program, how.runs)
        for site in self.program.evaluation.callers.call_sites(function) or ():
            yield site, replace(how, runs=site.call, node=site.call, only_unset=unset, depth=how.depth - 1)

    def _surely_sets(self, function: FunctionNode, node: ast.AST) -> bool:
        for outer in ancestors(node):
            if outer is function:
                return True
            if isinstance(outer, ast.IfExp | ast.While | ast.ExceptHandler | ast.match_case):
                return False
            if isinstance(outer, ast.If) and not (
                mentions_environment(self.program, outer.test) or _asks_for_a_value(outer)
            ):
                return False
            owner = class_of(outer) if isinstance(outer, FunctionNode) else None
            if (
                owner is not None
                and owner is class_of(function)
                and getattr(function, "name", "") == "__init__"
            ):
                return True
        return False

    def _parameter(self, value: ast.expr, function: FunctionNode | None) -> ast.arg | None:
        bindings = self.program.evaluation.sources(value) if isinstance(value, ast.Name) else []
        node = bindings[0].node if len(bindings) == 1 else None
        own = isinstance(node, ast.arg) and function_of_parameter(node) is function
        return node if isinstance(node, ast.arg) and own else None

    def _of_mapping(
        self, given: ast.expr, how: _SettingWay, value: ast.expr | None = None
    ) -> Iterator[ChangedVariable]:
        """The variables of a dictionary or of pairs, set to their values or to another one."""
        if isinstance(given, ast.Call) and last_name(given.func) == "items" and not given.args:
            given = given.func.value if isinstance(given.func, ast.Attribute) else given
        value_of_table = self.program.value(given)
        if isinstance(given, ast.DictComp) and value_of_table is UNKNOWN:
            yield from self._of_key(given.key, given.value, how)
            return
        if isinstance(given, ast.BinOp) and value_of_table is UNKNOWN:
            for side in (given.left, given.right):
                yield from self._of_mapping(side, how, value)
            return
        for table in alternatives(value_of_table):
            for name, item in pairs_of(table, self.program.value, is_whole=False) or ():
                yield self._change(name, value or item, replace(how, node=item))
        if value_of_table is UNKNOWN:
            for binding in self._bound_to(given):
                yield from self._of_bound_mapping(binding, how, value)

    def _of_bound_mapping(
        self, binding: Binding, how: _SettingWay, value: ast.expr | None
    ) -> Iterator[ChangedVariable]:
        """The variables of a table that is a parameter or a field, by what the calls give."""
        function = function_of_parameter(binding.node)
        if binding.kind is BindingKind.ASSIGNED and isinstance(binding.value, ast.Name) and how.depth:
            yield from self._of_mapping(binding.value, replace(how, depth=how.depth - 1), value)
        for site, setting in self._calls_of(function, how) if how.depth else ():
            if function is not None and function.args.kwarg is binding.node:
                for keyword in extra_keywords(function, site.call):
                    if keyword.arg is not None:
                        yield self._change(keyword.arg, value or keyword.value, setting)
            elif isinstance(binding.node, ast.arg) and (given := site.given_or_default(binding.node)):
                yield from self._of_mapping(given, setting, value)

    def _bound_to(self, given: ast.AST) -> list[Binding]:
        named = given if isinstance(given, ast.Name | ast.Attribute) else None
        bindings = self.program.evaluation.sources(named) if named else []
        return bindings if len(bindings) == 1 else []


def _spread(call: ast.Call) -> list[ast.expr]:
    """The arguments by position, of one unpacked pair its two parts."""
    if len(call.args) != 1 or not isinstance(call.args[0], ast.Starred):
        return call.args
    pair = call.args[0].value
    return [like(pair, ast.Subscript(pair, like(pair, ast.Constant(each)), ast.Load())) for each in (0, 1)]


def _way_of(statement: ast.stmt) -> _SettingWay:
    tests = (each for each in ancestors(statement) if isinstance(each, ast.If))
    return _SettingWay(statement, statement, but_none=any(map(_asks_for_a_value, tests)))


def _asks_for_a_value(branch: ast.If) -> bool:
    """Whether a test asks whether something is None: `if value is not None: os.environ[name] = value`."""
    return ast.unparse(branch.test).endswith((" is None", " is not None"))


def _is_tested_before(program: Program, node: ast.AST) -> bool:
    """Whether a test around it asks for the environment: `if "MASTER_ADDR" not in os.environ`."""
    tests = (each.test for each in ancestors(node) if isinstance(each, ast.If))
    return any(mentions_environment(program, each) for each in tests)


# Which plain Python type an expression surely has: what may go into os.environ, and what may not.

_DEEPEST_TYPE = 8
"""So many names behind each other; what lies deeper is unknown."""

_BUILTINS = {"int": "int", "float": "float", "len": "int", "bool": "bool", "str": "str", "ord": "int"}
_TYPE_OF_CALL = {
    **_BUILTINS,
    **dict.fromkeys(library_names("integers"), "int"),
    **dict.fromkeys(("time.time", "time.perf_counter", "time.monotonic", "random.random"), "float"),
    "torch.device": "torch.device",
    "numpy.int64": "numpy.int64",
    "numpy.random.randint": "int",
    "bytes": "bytes",
    "list": "list",
    "sorted": "list",
}
_COLLECTIONS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_KEEPS_TYPE = frozenset({"max", "min", "abs"})
_NUMERIC = frozenset({"int", "float", "bool"})
_PARSED = frozenset({"argparse.ArgumentParser.parse_args", "argparse.ArgumentParser.parse_known_args"})


def plain_type_of(program: Program, node: ast.expr, depth: int = _DEEPEST_TYPE) -> str | None:
    """Such as `int` or `str`; None where it is unknown, or one of several."""
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    if isinstance(node, ast.JoinedStr):
        return "str"
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return "bool"
    if isinstance(node, _COLLECTIONS):
        return type(node).__name__.lower().removesuffix("comp")
    if depth == 0:
        return None
    if isinstance(node, ast.Call):
        name = program.qualified(node.func) or ""
        if name in _KEEPS_TYPE and node.args and not has_star_arguments(node):
            return _common_type(plain_type_of(program, each, depth - 1) for each in node.args)
        return _TYPE_OF_CALL.get(name) or _path_type(program, node) or _type_by_origins(program, node, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _path_type(program, node):
        return "PosixPath"
    if isinstance(node, ast.BinOp):
        sides = {plain_type_of(program, node.left, depth - 1), plain_type_of(program, node.right, depth - 1)}
        if not sides <= _NUMERIC:
            return None
        return "float" if "float" in sides or isinstance(node.op, ast.Div) else "int"
    if isinstance(node, ast.IfExp | ast.BoolOp):
        parts = (node.body, node.orelse) if isinstance(node, ast.IfExp) else node.values
        return _common_type(plain_type_of(program, each, depth - 1) for each in parts)
    if isinstance(node, ast.NamedExpr):
        return plain_type_of(program, node.value, depth)
    if isinstance(node, ast.Name):
        bindings = program.evaluation.sources(node)
        return _common_type(_type_of_binding(program, each, depth - 1) for each in bindings)
    if isinstance(node, ast.Attribute) and (parsed := _type_of_parsed_option(program, node)) is not None:
        return parsed
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return _path_type(program, node)
    return _type_by_origins(program, node, depth) if isinstance(node, ast.Attribute | ast.Subscript) else None


def _path_type(program: Program, made: ast.expr) -> str | None:
    """`PosixPath` where an expression makes a path of pathlib."""
    return "PosixPath" if is_path(program.value(made)) else None


def _type_by_origins(program: Program, node: ast.expr, depth: int) -> str | None:
    """Of a field, an item or a result: the type of all that it may come from."""
    made = origins(program, node)
    return _common_type(
        None if each is None or each is node else plain_type_of(program, each, depth - 1) for each in made
    )


def _common_type(types: Iterable[str | None]) -> str | None:
    found = set(types)
    return found.pop() if len(found) == 1 else None


def _type_of_binding(program: Program, binding: Binding, depth: int) -> str | None:
    if binding.kind is BindingKind.ASSIGNED and binding.value is not None and binding.item is None:
        return plain_type_of(program, binding.value, depth)
    if binding.kind is BindingKind.ASSIGNED:
        made = origins_of_binding(program, binding)
        return _common_type(None if each is None else plain_type_of(program, each, depth) for each in made)
    if binding.kind is BindingKind.LOOPED and isinstance(binding.value, ast.Call) and binding.item is None:
        ranged = program.qualified(binding.value.func) == "range"
        target = getattr(binding.node, "target", None)
        return "int" if ranged and isinstance(target, ast.Name) else None
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
        return _type_of_parameter(program, binding.node, depth)
    return None


def _type_of_parameter(program: Program, parameter: ast.arg, depth: int) -> str | None:
    """What every call gives a parameter."""
    sites = program.evaluation.callers.call_sites_giving(parameter)
    if not sites:
        return None
    types = set[str | None]()
    for site in sites:
        given = site.given_or_default(parameter)
        if parameter.arg in site.values:
            types.add("int")  # The number that spawn gives.
        else:
            types.add(None if given is None else plain_type_of(program, given, depth))
    return _common_type(types)


def _type_of_parsed_option(program: Program, node: ast.Attribute) -> str | None:
    """`args.n_gpus`, by what the parser makes of the option; nothing where the program sets it itself."""
    owner = program.value(node.value)
    if not isinstance(owner, Instance) or owner.name not in _PARSED:
        return None
    if any(node.attr in file.set_attributes for file in program.files):
        return None
    declared = program.evaluation.attributes.options.declared.get(node.attr, ())
    return _common_type(_type_of_option(program, call) for call in declared)


def _type_of_option(program: Program, call: ast.Call) -> str | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "nargs" in given or None in given:
        return None
    action = given.get("action")
    if action is not None:
        flag = isinstance(action, ast.Constant) and action.value in ("store_true", "store_false")
        return "bool" if flag else None
    made = given.get("type")
    if made is None or "default" not in given:
        return None  # Without a default it may be None; without a type it is a string, or the default.
    kind = last_name(made) if isinstance(made, ast.Name) else None
    if kind not in _BUILTINS or program.qualified(made) != kind:
        return None
    default = given["default"]
    # A default that is written as a string goes through the type as well.
    if isinstance(default, ast.Constant) and default.value is None:
        return None
    return _BUILTINS[kind]
