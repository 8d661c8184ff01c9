"""Where a name gets its value: the definitions that reach a use, and what calls give to parameters.

A definition reaches a use where it stands before it in the same scope, or behind it in a loop around both,
and no later one that surely runs replaces it. Parameters have what every call of their function gives them;
where it may be called from where nobody sees, nothing is known of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard, TypeVar

from launcher.program.index import (
    PARENT,
    SCOPE,
    Binding,
    BindingKind,
    FunctionNode,
    ProgramFiles,
    Scope,
    default_of,
    dotted_name,
    file_of,
    function_of_parameter,
    is_class_method,
    is_static,
    last_name,
    parameters_of,
    parent_of,
    positional_of,
    scope_of,
)
from launcher.program.values import (
    UNKNOWN,
    Defined,
    Environment,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Value,
    alternatives,
    joined,
    library_names,
)

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.ExceptHandler)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_HOLDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Arm = tuple[ast.AST, str]
"""A branching statement and the part of it in which something stands."""


def reaching_definitions(holder: Scope, use: ast.Name) -> list[Binding]:
    """The bindings of a name that may hold where it is used.

    In the scope that binds it: those before the use (and in a loop around both, behind it), of which the last
    that surely runs hides what is before. Seen from another function: all.
    """
    bindings = holder.bindings[use.id]
    if len(bindings) == 1 or _outside_comprehensions(scope_of(use)) is not holder:
        return bindings
    place = (use.lineno, use.col_offset)
    arms = branch_arms(use)
    found: list[Binding] = []
    for each in bindings:
        its_arms = branch_arms(each.node)
        if _are_exclusive(its_arms, arms):
            continue
        behind = _end_of_binding(each) > place
        if behind:
            if _share_a_loop(its_arms, arms):
                found.append(each)
        elif its_arms <= arms and each.kind is not BindingKind.CHANGED:
            found = [each]
        else:
            found.append(each)
    return found or bindings


def branch_arms(node: ast.AST) -> frozenset[Arm]:
    """The parts of branching statements of its function in which a node stands."""
    known = file_of(node).branch_arms
    within: list[tuple[ast.AST, ast.AST]] = []
    found = known.get(node)
    inner = node
    while found is None:
        outer = parent_of(inner)
        if outer is None or isinstance(outer, _HOLDERS):
            found = frozenset()
        else:
            within.append((outer, inner))
            found = known.get(outer)
            inner = outer
    for outer, inner in reversed(within):
        if isinstance(outer, _BRANCHES):
            part = _part_of(outer, inner)
            if part not in ("test", "iter", "finalbody") and not (
                isinstance(outer, ast.Try) and part == "body"
            ):
                found |= {(outer, part)}
        if isinstance(inner, ast.stmt):  # Each is asked for again by what stands in it.
            known[inner] = found
    return found


def _part_of(branch: ast.AST, inner: ast.AST) -> str:
    """The field of a branching statement that holds a node. The first to ask writes it down for all of them:
    one after the other they would look through the same long blocks."""
    known = file_of(branch).branch_parts
    if inner not in known:
        for name, value in ast.iter_fields(branch):
            for each in value if isinstance(value, list) else (value,):
                if isinstance(each, ast.AST):
                    known[each] = name
    return known[inner]


def _are_exclusive(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
    """Whether two places stand in different arms of one `if`."""
    first = {node: part for node, part in one if isinstance(node, ast.If)}
    return any(node in first and first[node] != part for node, part in other)


def _share_a_loop(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
    return any(isinstance(node, _LOOPS) for node, _ in one & other)


def _outside_comprehensions(scope: Scope) -> Scope:
    """The scope around comprehensions, whose code runs where it stands."""
    while (
        isinstance(scope.node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and scope.parent
    ):
        scope = scope.parent
    return scope


def _end_of_binding(binding: Binding) -> tuple[int, int]:
    """Where the binding's value is complete, so that `x = f(x)` uses the x before."""
    node = binding.node
    if binding.kind in (BindingKind.LOOPED, BindingKind.ENTERED) and binding.value is not None:
        node = binding.value
    elif binding.kind is BindingKind.DEFINED:
        return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    elif not hasattr(node, "end_lineno"):
        parent = parent_of(node)
        node = node if parent is None else parent
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0


_RANK_STARTERS = library_names("rank_starters")
_PROCESSES = frozenset({"multiprocessing.Process", "threading.Thread"})
_SPAWNED = RankValue(RankKind.LOCAL, "spawn")


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """One call of a function: the expressions of its arguments by parameter, None where that cannot be said.

    `values` are what is known without an expression, such as the index that spawn gives.
    """

    call: ast.Call
    arguments: Mapping[str, ast.expr] | None
    values: Mapping[str, Value] = field(default_factory=dict)

    def given(self, parameter: ast.arg) -> ast.expr | None:
        """What the call itself gives a parameter; None where that cannot be said, too."""
        return None if self.arguments is None else self.arguments.get(parameter.arg)

    def given_or_default(self, parameter: ast.arg) -> ast.expr | None:
        """What a parameter is in the call, by its default where the call does not give it."""
        function = function_of_parameter(parameter)
        if self.arguments is None or function is None:
            return None
        return self.arguments.get(parameter.arg) or default_of(function, parameter.arg)


class CallGraph:
    """The calls of one program, from the side of who is called."""

    def __init__(
        self,
        files: ProgramFiles,
        value: Callable[[ast.expr], Value],
        written_out: Callable[[ast.Call], ast.Call],
    ) -> None:
        """Nothing is looked for before somebody asks; `value` says what an expression is, `written_out` what
        a call is given."""
        self.files = files
        self.value = value
        self.written_out = written_out
        self._found: dict[ast.AST, list[CallSite] | None] = {}

    def call_sites(self, function: FunctionNode) -> list[CallSite] | None:
        """All calls of a function; None where it may be called from where nobody sees."""
        if function in self._found:
            return self._found[function]
        self._found[function] = None  # While we look, others wait in vain.
        found: list[CallSite] = []
        for each in self._sites(function):
            if each is None:
                return None
            found.append(each)
        self._found[function] = found
        return found

    def call_sites_giving(self, parameter: ast.AST) -> list[CallSite] | None:
        """The calls that give a parameter its value: all of its function, as `call_sites` has them."""
        function = function_of_parameter(parameter)
        return None if function is None else self.call_sites(function)

    @cached_property
    def declared_ranks(self) -> frozenset[str]:
        """What is handed to init_process_group as `rank`, as written: `args.rank`."""
        given = (
            dotted_name(keyword.value)
            for file in self.files.mentioning("init_process_group")
            for call in file.calls_of.get("init_process_group", ())
            for keyword in call.keywords
            if keyword.arg == "rank"
        )
        return frozenset(each for each in given if each is not None and "." in each)

    def _sites(self, function: FunctionNode) -> Iterator[CallSite | None]:
        if isinstance(function, ast.Lambda):
            yield None
            return
        owner = scope_of(function).node
        name = function.name
        if isinstance(owner, ast.ClassDef) and name == "__init__":
            yield from self._named(owner.name, owner, function, bound=True)
        elif isinstance(owner, ast.ClassDef):
            yield from self._methods(name, function)
        else:
            yield from self._named(name, function, function, bound=False)

    def _named(
        self, name: str, wanted: ast.AST, function: FunctionNode, bound: bool
    ) -> Iterator[CallSite | None]:
        """What every use of a function's or class's name says; from other modules also as an attribute."""
        for file in self.files.mentioning(name):
            for alias in {name, *file.imported_as.get(name, ())}:
                for use in (*file.names.get(alias, ()), *file.attributes.get(alias, ())):
                    value = self.value(use)
                    if isinstance(value, Defined) and value.node is wanted:
                        yield from self._use(use, function, bound)

    def _methods(self, name: str, function: FunctionNode) -> Iterator[CallSite | None]:
        for file in self.files.mentioning(name):
            for use in file.attributes.get(name, ()):
                for value in alternatives(self.value(use)):
                    if isinstance(value, Defined):
                        if value.node is function:
                            bound = value.owner is not None or is_class_method(function)
                            yield from self._use(use, function, bound)
                    elif not isinstance(value, External):
                        yield None

    def _use(self, use: ast.expr, function: FunctionNode, bound: bool) -> Iterator[CallSite | None]:
        parent = parent_of(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            yield CallSite(parent, bind_arguments(function, self.written_out(parent), bound))
            return
        if isinstance(parent, ast.Return):
            yield from self._decorating(use)
            return
        call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(parent, ast.ClassDef):
            yield from self._inherited(parent, function)
            return
        if isinstance(parent, ast.Attribute):
            return  # A member of a class.
        if not isinstance(call, ast.Call):
            yield None
            return
        called = self.value(call.func)
        if called == External("functools.partial"):
            yield from self._of_partial(call, function, bound)
        elif isinstance(called, External):
            yield self._started(called.name, call, function)
        elif isinstance(called, Defined) and not isinstance(called.node, ast.ClassDef):
            yield from self._handed_on(called, call, use, function)
        else:
            yield None

    def _of_partial(
        self, partial: ast.Call, function: FunctionNode, bound: bool
    ) -> Iterator[CallSite | None]:
        """The calls of what `name = partial(function, ...)` makes."""
        holder = parent_of(partial)
        name = last_name(holder.targets[0]) if isinstance(holder, ast.Assign) else None
        if name is None:
            yield None
            return
        for file in self.files.mentioning(name):
            for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
                value = self.value(use)
                if isinstance(value, Instance) and value.call is partial:
                    parent = parent_of(use)
                    if isinstance(parent, ast.Call) and parent.func is use:
                        yield CallSite(parent, bind_arguments(function, self.written_out(parent), bound))
                    else:
                        yield None

    def _decorating(self, use: ast.Name | ast.expr) -> Iterator[CallSite | None]:
        """The calls of the functions that a decorator puts another one in the place of, which it returns."""
        decorator = scope_of(use).function
        if decorator is None:
            yield None
            return
        found = False
        for decorated, by in self._decorated:
            value = self.value(by)
            if isinstance(value, Defined) and value.node is decorator.node:
                found = True
                sites = self.call_sites(decorated)
                yield from (None,) if sites is None else (CallSite(each.call, None) for each in sites)
        if not found:
            yield None

    @cached_property
    def _decorated(self) -> list[tuple[FunctionNode, ast.expr]]:
        return [
            (each, by) for file in self.files.files for each in file.functions for by in each.decorator_list
        ]

    def _inherited(self, definition: ast.ClassDef, function: FunctionNode) -> Iterator[CallSite | None]:
        """The calls of an initialiser by a class that inherits it, or by one that extends it."""
        own = [
            each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ]
        if not own:
            yield from self._named(definition.name, definition, function, bound=True)
            return
        for call in file_of(definition).calls_of.get("__init__", ()):
            above = call.func.value if isinstance(call.func, ast.Attribute) else None
            by_super = isinstance(above, ast.Call) and last_name(above.func) == "super"
            if by_super and scope_of(call).node is own[-1]:
                yield CallSite(call, bind_arguments(function, call, True))

    def _started(self, name: str, call: ast.Call, function: FunctionNode) -> CallSite | None:
        """A function that is handed to what starts processes with it."""
        if name in ("isinstance", "issubclass", "type", "super"):
            return CallSite(call, {})
        if name in _RANK_STARTERS:
            given = next((each.value for each in call.keywords if each.arg == "args"), None)
            given = call.args[1] if given is None and len(call.args) > 1 else given
            return _spawned_site(call, function, [None, *_elements(given)], _SPAWNED)
        if name in _PROCESSES:
            given = next((each.value for each in call.keywords if each.arg == "args"), None)
            elements = _elements(given)
            first = elements[0] if elements else None
            if isinstance(first, ast.Name) and self._counts(first):
                return _spawned_site(call, function, [None, *elements[1:]], _SPAWNED)
            return _spawned_site(call, function, [*elements], None)
        return None

    def _counts(self, name: ast.Name) -> bool:
        """Whether a name is the variable of a loop over range."""
        holder = scope_of(name).holder_of(name.id)
        for binding in holder.bindings[name.id] if holder is not None else ():
            value = binding.value
            if binding.kind is not BindingKind.LOOPED or not isinstance(value, ast.Call):
                return False
            if not isinstance(value.func, ast.Name) or value.func.id != "range":
                return False
        return holder is not None

    def _handed_on(
        self, called: Defined, call: ast.Call, use: ast.expr, function: FunctionNode
    ) -> Iterator[CallSite | None]:
        """A function that is an argument of another function of the program: its calls of that parameter."""
        receiver = called.node
        assert not isinstance(receiver, ast.ClassDef)
        arguments = bind_arguments(receiver, call, called.owner is not None) or {}
        parameter = next((name for name, value in arguments.items() if value is use), None)
        if parameter is None:
            yield None
            return
        scope = file_of(receiver).scopes[receiver]
        for name in file_of(receiver).names.get(parameter, ()):
            if scope_of(name).holder_of(parameter) is scope:
                parent = parent_of(name)
                if isinstance(parent, ast.Call) and parent.func is name:
                    yield CallSite(parent, bind_arguments(function, parent, False))
                else:
                    yield None


def bind_arguments(function: FunctionNode, call: ast.Call, bound: bool) -> dict[str, ast.expr] | None:
    """The arguments of a call by the parameters; None where a `*` or `**` hides which are which."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if any(each.arg is None for each in call.keywords):
        return None
    positional = [each.arg for each in positional_of(function)]
    if bound:
        positional = positional[1:]
    found = dict(zip(positional, call.args, strict=False))
    names = {each.arg for each in parameters_of(function)}
    found.update(
        {each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in names}
    )
    return found


def extra_keywords(function: FunctionNode, call: ast.Call) -> list[ast.keyword] | None:
    """What a call gives to the `**options` of a function; None where a `**` hides a part of it."""
    names = {each.arg for each in parameters_of(function)}
    extra = [each for each in call.keywords if each.arg not in names]
    return None if any(each.arg is None for each in extra) else extra


Expression = TypeVar("Expression", bound=ast.expr)


def like(node: ast.expr, made: Expression, placed: bool = True) -> Expression:
    """An expression that is made for another one, in its scope and, unless it has none, in its place."""
    made.__dict__.update({key: node.__dict__.get(key) for key in (PARENT, SCOPE)})
    return ast.copy_location(made, node) if placed else made


class WrittenArguments:
    """Calls with all that `functools.partial` and `**` give them written among their arguments."""

    callers: CallGraph

    def __init__(
        self,
        value: Callable[[ast.expr], Value],
        items_of: Callable[[Value], dict[str, ast.expr] | None],
    ) -> None:
        """Nothing is written before somebody asks; `items_of` are the items of a dictionary."""
        self.value = value
        self.items_of = items_of
        self._known: dict[ast.Call, ast.Call] = {}
        self._open: set[ast.Call] = set()

    def written_out(self, node: ast.Call) -> ast.Call:
        """A call with its arguments written out; itself where there are no more than it shows."""
        found = self._known.get(node)
        if found is None:
            called = self.value(node.func)
            if called is Nothing.ITSELF or node in self._open:
                return node
            self._open.add(node)
            try:
                found = self._known[node] = self._write_out(node, called)
            finally:
                self._open.discard(node)
        return found

    def _write_out(self, node: ast.Call, called: Value) -> ast.Call:
        function, arguments, keywords = node.func, node.args, node.keywords
        if isinstance(called, Instance) and called.name == "functools.partial":
            held = self.written_out(called.call)
            if not held.args or isinstance(held.args[0], ast.Starred):
                return node
            function, arguments = held.args[0], [*held.args[1:], *arguments]
            keywords = [*held.keywords, *keywords]
        elif not any(each.arg is None for each in keywords):
            return node
        whole = [part for each in keywords for part in self._spread(each)]
        if function is node.func and whole == keywords:
            return node
        last = {each.arg: each for each in whole}
        whole = [each for each in whole if each.arg is None or last[each.arg] is each]
        written = like(node, ast.Call(function, arguments, whole))
        return written if function is node.func else self.written_out(written)

    def _spread(self, keyword: ast.keyword) -> list[ast.keyword]:
        """`**options` as the keywords that it stands for; as it is where they are not all known."""
        if keyword.arg is not None or self.callers.files.grows(last_name(keyword.value)):
            return [keyword]
        handed_on = self._handed_on(keyword.value)
        if handed_on is not None:
            return handed_on
        items = self.items_of(self.value(keyword.value))
        if items is None:
            return [keyword]
        return [ast.copy_location(ast.keyword(name, value), value) for name, value in items.items()]

    def _handed_on(self, node: ast.expr) -> list[ast.keyword] | None:
        """What the only call of a function gives to its `**options`, where these are handed on."""
        holder = scope_of(node).holder_of(node.id) if isinstance(node, ast.Name) else None
        bindings = holder.bindings[node.id] if holder is not None and isinstance(node, ast.Name) else []
        function = function_of_parameter(bindings[0].node) if len(bindings) == 1 else None
        if function is None or function.args.kwarg is not bindings[0].node:
            return None
        sites = self.callers.call_sites(function)
        return (
            extra_keywords(function, self.written_out(sites[0].call)) if sites and len(sites) == 1 else None
        )


def _spawned_site(
    call: ast.Call, function: FunctionNode, given: list[ast.expr | None], first: Value | None
) -> CallSite:
    positional = [each.arg for each in positional_of(function)]
    arguments = {name: value for name, value in zip(positional, given, strict=False) if value is not None}
    values: dict[str, Value] = {positional[0]: first} if first is not None and positional else {}
    return CallSite(call, arguments, values)


def _elements(node: ast.expr | None) -> list[ast.expr | None]:
    return [*node.elts] if isinstance(node, ast.Tuple | ast.List) else []


class ParameterEvaluator:
    """The parameters of one program's functions."""

    def __init__(
        self, callers: CallGraph, value: Callable[[ast.expr], Value], being_evaluated: set[ast.AST]
    ) -> None:
        """Nothing is evaluated before somebody asks; `being_evaluated` is what others are finding out."""
        self.callers = callers
        self.value_of = value
        self.being_evaluated = being_evaluated
        self._known: dict[ast.AST, Value] = {}

    def value(self, parameter: ast.AST, environment: Environment | None) -> Value:
        """What a parameter is in a call with these arguments, or in every call."""
        if environment is not None and parameter in environment:
            return environment[parameter]
        known = self._known.get(parameter)
        if known is not None:
            return known
        if parameter in self.being_evaluated:
            return Nothing.ITSELF
        self.being_evaluated.add(parameter)
        try:
            found = self._of_every_call(parameter)
        finally:
            self.being_evaluated.discard(parameter)
        if found is not Nothing.ITSELF:
            self._known[parameter] = found
        return found

    def _of_every_call(self, parameter: ast.AST) -> Value:
        assert isinstance(parameter, ast.arg)
        function = function_of_parameter(parameter)
        if function is None:
            return UNKNOWN
        declared = self._annotated(parameter)
        owner = scope_of(function).node
        if isinstance(owner, ast.ClassDef) and not is_static(function):
            positional = positional_of(function)
            if positional and positional[0] is parameter:
                return Defined(owner) if is_class_method(function) else Made(owner)
        calls = self.callers.call_sites(function)
        if calls is None or not calls:
            return declared
        found = joined(
            call.values[parameter.arg] if parameter.arg in call.values else self._given(call, parameter)
            for call in calls
        )
        return declared if found is UNKNOWN else found

    def _given(self, call: CallSite, parameter: ast.arg) -> Value:
        given = call.given_or_default(parameter)
        return UNKNOWN if given is None else self.value_of(given)

    def _annotated(self, parameter: ast.arg) -> Value:
        """An object of the class that the parameter's annotation names."""
        annotation = parameter.annotation
        if isinstance(annotation, ast.BinOp):  # Such as `Accelerator | None`.
            annotation = annotation.left
        if not isinstance(annotation, ast.Name | ast.Attribute):
            return UNKNOWN
        named = self.value_of(annotation)
        if isinstance(named, Defined) and isinstance(named.node, ast.ClassDef):
            return Made(named.node)
        if isinstance(named, External) and named.name.rpartition(".")[2][:1].isupper():
            return Instance(named.name, ast.Call(annotation, [], []))
        return UNKNOWN


_DATA_DECORATORS = frozenset({"dataclass", "define", "frozen", "attrs"})
_DATA_BASES = frozenset({"NamedTuple", "BaseModel", "BaseSettings"})


def is_data_class(definition: ast.ClassDef) -> bool:
    """Whether the initialiser of a class is made of its fields, as that of a dataclass or NamedTuple."""
    named = [each.func if isinstance(each, ast.Call) else each for each in definition.decorator_list]
    return (
        any(last_name(each) in _DATA_DECORATORS for each in named)
        or any(last_name(each) in _DATA_BASES for each in definition.bases)
    ) and not any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in definition.body)


class FieldBindings:
    """What the calls of classes of data give their fields."""

    def __init__(self, callers: CallGraph) -> None:
        """Nothing is looked for before somebody asks."""
        self.callers = callers
        self._uses: dict[ast.ClassDef, list[ast.Call | None]] = {}

    def bindings(self, definition: ast.ClassDef, name: str, defaults: list[Binding]) -> list[Binding]:
        """What a field is: given by a call, or its default where one leaves it, or anything."""
        names = [last_name(each.target) or "" for each in definition.body if _is_field(each)]
        if name not in names:
            return defaults
        if definition not in self._uses:
            self._uses[definition] = []  # While we look, others have the defaults.
            self._uses[definition] = list(self._calls(definition))
        found: list[Binding] = []
        for call in self._uses[definition]:
            given = None if call is None else self._given(definition, names, name, call)
            if given is not None:
                found.append(given)
            elif call is not None:
                found += [each for each in defaults if each not in found]
            else:
                found.append(Binding(name, BindingKind.OTHER, definition))
        return found or defaults

    def _given(self, definition: ast.ClassDef, names: list[str], name: str, call: ast.Call) -> Binding | None:
        call = self.callers.written_out(call)
        hidden = any(isinstance(each, ast.Starred) for each in call.args)
        if (
            hidden
            or any(each.arg is None for each in call.keywords)
            or (call.args and len(definition.bases) > 1)
        ):
            return Binding(name, BindingKind.OTHER, call)
        given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords}
        return Binding(name, BindingKind.ASSIGNED, call, given[name]) if name in given else None

    def _calls(self, definition: ast.ClassDef) -> Iterator[ast.Call | None]:
        """The calls of a class; None where others, whom it is handed to, may make objects of it."""
        for file in self.callers.files.mentioning(definition.name, "cls"):
            for alias in {definition.name, *file.imported_as.get(definition.name, ()), "cls"}:
                for use in (*file.names.get(alias, ()), *file.attributes.get(alias, ())):
                    if self.callers.value(use) == Defined(definition):
                        yield from self._use(use)

    def _use(self, use: ast.expr) -> Iterator[ast.Call | None]:
        parent = parent_of(use)
        call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and call.func is use:
            yield call
        elif isinstance(call, ast.Call) and last_name(call.func) == "field":
            yield like(call, ast.Call(use, [], []))
        elif isinstance(call, ast.Call):
            if last_name(call.func) not in ("isinstance", "issubclass", "fields", "cast"):
                yield None
        elif isinstance(parent, ast.Tuple | ast.List):
            if not isinstance(parent_of(parent), ast.Subscript):
                yield None
        elif isinstance(parent, ast.Dict | ast.Assign | ast.Return | ast.Starred):
            yield None


def _is_field(statement: ast.stmt) -> TypeGuard[ast.AnnAssign]:
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
