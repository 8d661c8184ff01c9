"""The index of a Python file, made in one walk: scopes and bindings, calls, definitions, attributes.

Every node of the tree afterwards knows its parent and its scope, and the scope its file; `parent_of`,
`scope_of` and their like ask. The walk is iterative, so that no nesting reaches Python's recursion limit.
`ProgramFiles` are the files of a program together, by the names of their modules.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TypeVar, cast

from launcher.frozen import frozen, frozen_by_identity
from launcher.program.objects.file_text import FileText
from launcher.program.objects.nodes import FIELDS, fields_of, nodes_by_kind, walk
from launcher.program.objects.unpacking import unpacked_parts

Node = TypeVar("Node", bound=ast.AST)
"""A kind of node."""

_LEAVING = (ast.Return, ast.Break, ast.Continue)
EXIT_NAMES = ("exit", "_exit", "quit", "abort")
"""The last names of what ends the process."""


class FileIndex(FileText):
    """What one file holds."""

    def __init__(self, path: Path, text: str, tree: ast.Module) -> None:
        """Walk the tree once."""
        super().__init__(path, text)
        self.tree = tree
        self.calls: list[ast.Call] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: list[Binding] = []
        self.stars: list[str] = []
        """The modules of `from ... import *`."""
        self.names: dict[str, list[ast.Name]] = {}
        """Every name that is read, by its identifier."""
        self.attributes: dict[str, list[ast.Attribute]] = {}
        """Every attribute that is read, by its last name; also by `getattr` with a literal."""
        self.set_attributes: dict[str, list[Binding]] = {}
        """Every attribute that is set, also by `setattr`, by its last name; `Binding.name` is all of it."""
        self.set_items: dict[str, list[Binding]] = {}
        """Every item that is set, by its literal key or ""; `Binding.name` is the owner's last name."""
        self.yields_of: dict[ast.AST, list[ast.Yield | ast.YieldFrom]] = {}
        """What the functions that are generators yield."""
        self.module = Scope(self, tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.branch_arms: dict[ast.AST, frozenset[tuple[ast.AST, str]]] = {}
        """The branching statements around a statement, with the part of each (in `bindings`)."""
        self.branch_parts: dict[ast.AST, str] = {}
        """The field of its branching statement in which something stands."""
        self.calls_within: dict[ast.AST, list[ast.Call]] = {}
        """The calls in a block (in `divergence`)."""
        self._nodes_by_kind = _IndexWalk(self).run()

    @cached_property
    def calls_of(self) -> dict[str, list[ast.Call]]:
        """The calls by the last name of what is called: `barrier` of `dist.barrier()`."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            name = last_name(call.func)
            if name is not None:
                found.setdefault(name, []).append(call)
        return found

    @cached_property
    def calls_in_scope(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls by the function, class, comprehension or module in which they are evaluated."""
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(scope_of(call).node, []).append(call)
        return found

    @cached_property
    def _nodes_by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        """Set by the one walk; gone through again where some calls are other ones since."""
        return nodes_by_kind(self.tree)

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of a kind but operators and contexts, in the order of the source."""
        return cast("list[Node]", self._nodes_by_kind.get(kind, []))

    def calls_giving(self, name: str) -> list[ast.Call]:
        """The calls that give a parameter by its name, or may by a table, `**options`; each once."""
        named, unpacking = (self._calls_by_keyword.get(each, ()) for each in (name, None))
        return [*dict.fromkeys((*named, *unpacking))]

    @cached_property
    def _calls_by_keyword(self) -> dict[str | None, list[ast.Call]]:
        found: dict[str | None, list[ast.Call]] = {}
        for call in self.calls:
            for name in {each.arg for each in call.keywords}:
                found.setdefault(name, []).append(call)
        return found

    def texts(self) -> Iterator[tuple[ast.Constant, str]]:
        """The literal texts of the file."""
        for node in self.nodes(ast.Constant):
            if isinstance(node.value, str):
                yield node, node.value

    def forget_what_is_called(self) -> None:
        """Find out anew what is called and mentioned, as some calls are other ones now, or are none."""
        for name in ("calls_of", "calls_in_scope", "mentioned", "_nodes_by_kind", "_calls_by_keyword"):
            self.__dict__.pop(name, None)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The last names of all that the file reads, sets or imports."""
        names = (*self.names, *self.attributes, *self.set_attributes, *self.set_items, *self.imported_as)
        return frozenset(names)

    @cached_property
    def imported_as(self) -> dict[str, list[str]]:
        """The names under which the file imports something, by the last part of where it comes from."""
        found: dict[str, list[str]] = {}
        for binding in self.imports:
            found.setdefault((binding.module or "").rpartition(".")[2], []).append(binding.name)
        return found

    @cached_property
    def aliases(self) -> dict[str, list[str]]:
        """The names that imports and assignments give to what has a last name: `gather = dist.gather`."""
        found = {last: [*names] for last, names in self.imported_as.items()}
        for statement in self.nodes(ast.Assign):
            last = last_name(statement.value)
            for name in map(last_name, statement.targets):
                if last and name and name != last:
                    found.setdefault(last, []).append(name)
        for definition in self.classes:  # Which may be as good as what it is derived from.
            for last in filter(None, map(last_name, definition.bases)):
                found.setdefault(last, []).append(definition.name)
        return found

    @cached_property
    def returns_of(self) -> dict[ast.AST, list[ast.Return]]:
        """The `return` statements by their function."""
        found: dict[ast.AST, list[ast.Return]] = {}
        for statement in self.nodes(ast.Return):
            found.setdefault(scope_of(statement).node, []).append(statement)
        return found

    @cached_property
    def leaving_statements(self) -> set[ast.AST]:
        """The statements by which a loop, a function or the run may be left, and those around them."""
        leaving = [each for kind in _LEAVING for each in self.nodes(kind)]
        return with_enclosing_statements(leaving) | self.ending_statements

    @cached_property
    def ending_statements(self) -> set[ast.AST]:
        """The statements that raise or end the process, and those around them."""
        calls = (call for name in (*EXIT_NAMES, "kill") for call in self.calls_of.get(name, ()))
        return with_enclosing_statements([*self.nodes(ast.Raise), *map(statement_of, calls)])


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""What has parameters and a body of its own."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What has names of its own, and no more."""

_HOLDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

PARENT = "parent"
SCOPE = "scope"
"""Where a walked node keeps what holds it, and in which scope it is evaluated."""

_READ = "read"
"""Where a call of getattr keeps the attribute that it reads."""

WRITTEN_OUT = "written_out"
"""Where a partial application keeps that its calls are written out as calls of the function itself."""


class BindingKind(Enum):
    """How a name got its value."""

    ASSIGNED = "assigned"
    CHANGED = "changed"
    """By `+=` and its like: the new value depends on the old one."""
    PARAMETER = "parameter"
    IMPORTED = "imported"
    DEFINED = "defined"
    LOOPED = "looped"
    """By `for`: `value` is what is looped over."""
    ENTERED = "entered"
    """By `with ... as`: `value` is the context manager."""
    OTHER = "other"
    """Caught exceptions, deleted names, patterns: nothing is known of the value."""


@frozen_by_identity
class Binding:
    """One place where a name or an attribute is given a value.

    `node` is the statement, parameter or expression that does it, `value` the expression where there is
    one. `item` is the position in the value where that is unpacked. `module` is the dotted name of an
    import, with a dot in front for each level of a relative one.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    item: int | None = None
    module: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A module, function, class, lambda or comprehension: what its names are bound to, in source order."""

    file: FileIndex
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)
    """The names that `global` or `nonlocal` hands to another scope."""
    in_branches: dict[str, bool] = field(default_factory=dict)
    """Whether a name is bound in a part of a branching statement, of the names that somebody asked for."""

    def holder_of(self, name: str) -> Scope | None:
        """The scope in which a name that is used here is bound, as Python looks it up; None for builtins, and
        for what `global` names and nothing binds."""
        if name in self.elsewhere:
            holder = self.elsewhere[name]
            return holder if name in holder.bindings else None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope = scope.parent
        return None

    def names(self, name: str) -> bool:
        """Whether it or a scope around it, also a class, gives a name a value or to another scope."""
        found = name in self.bindings or name in self.elsewhere
        return found or (self.parent is not None and self.parent.names(name))

    @property
    def function(self) -> Scope | None:
        """The nearest scope, this one or around it, that is a function; None in a module's own code."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, FunctionNode):
            scope = scope.parent
        return scope


def parent_of(node: ast.AST) -> ast.AST | None:
    """The node that holds this one; None for a module."""
    found = node.__dict__.get(PARENT)
    return found if isinstance(found, ast.AST) else None


def scope_of(node: ast.AST) -> Scope:
    """The scope in which a node is evaluated: for a function's decorators and defaults that around it."""
    scope = node.__dict__[SCOPE]
    assert isinstance(scope, Scope)
    return scope


def file_of(node: ast.AST) -> FileIndex:
    """The file in which a node stands."""
    return scope_of(node).file


def ancestors(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node, from the nearest outwards, up to the module."""
    held = parent_of(node)
    while held is not None:
        yield held
        held = parent_of(held)


def ancestors_in_function(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node within its function."""
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        yield outer


def statement_of(node: ast.AST) -> ast.stmt:
    """The statement in which an expression stands; a statement itself."""
    while not isinstance(node, ast.stmt):
        parent = parent_of(node)
        assert parent is not None, "every expression stands in a statement"
        node = parent
    return node


def is_main_guard(test: ast.expr) -> bool:
    """Whether a test asks how its module was started: `__name__ == "__main__"`."""
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in walk(test))


def with_enclosing_statements(statements: Iterable[ast.stmt]) -> set[ast.AST]:
    """Statements, and what holds them in the same function."""
    found: set[ast.AST] = set()
    for statement in statements:
        node: ast.AST | None = statement
        while node is not None and node not in found and not isinstance(node, _HOLDERS):
            found.add(node)
            node = parent_of(node)
    return found


def class_of(function: ast.AST) -> ast.ClassDef | None:
    """The class whose method a function is; None of a plain function."""
    holder = scope_of(function).node
    return holder if isinstance(holder, ast.ClassDef) else None


def parameters_of(function: FunctionNode) -> list[ast.arg]:
    """The parameters that may be given by position, then those that are given by keyword only."""
    return [*positional_of(function), *function.args.kwonlyargs]


def positional_of(function: FunctionNode) -> list[ast.arg]:
    """The parameters that may be given by position."""
    return [*function.args.posonlyargs, *function.args.args]


def default_of(function: FunctionNode, name: str) -> ast.expr | None:
    """What a parameter is where a call does not give it; None where every call must."""
    arguments = function.args
    for given, value in zip(reversed(positional_of(function)), reversed(arguments.defaults), strict=False):
        if given.arg == name:
            return value
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return next((default for given, default in by_keyword if given.arg == name), None)


def dotted_name(node: ast.expr) -> str | None:
    """`a.b.c` as it is written; None where anything but names and attributes is in it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join((node.id, *reversed(parts)))


def last_name(node: ast.AST) -> str | None:
    """`c` of `a.b.c` or of `f().c`, or the name itself."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def holder_name(node: ast.expr) -> str | None:
    """The last name of what a list or table is; `steps[]` of an entry of a table, by whatever key."""
    entry = ""
    while not isinstance(node, ast.Name | ast.Attribute):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and last_name(node.func) in ("get", "setdefault"):
            node = getattr(node.func, "value", ast.Name(""))
        else:
            return None
        entry += "[]"
    return f"{last_name(node)}{entry}"


def attribute_of_getattr(call: ast.Call, name: object = None) -> ast.Attribute | None:
    """`getattr(args, "rank", 0)` as the attribute that it reads, or that `setattr` sets; made once where its
    name is written."""
    written = getattr(call.args[1], "value", None) if isinstance(call.args[1], ast.Constant) else None
    known = call.__dict__.get(_READ)
    if known is None and isinstance(written or name, str):
        known = ast.Attribute(call.args[0], str(written or name), ast.Load())
        ast.copy_location(known, call)
        known.__dict__.update({key: call.__dict__.get(key) for key in (PARENT, SCOPE)})
        if written:
            call.__dict__[_READ] = known
    return known if isinstance(known, ast.Attribute) else None


def function_of_parameter(parameter: ast.AST) -> FunctionNode | None:
    """The function whose parameter this is."""
    function = next(islice(ancestors(parameter), 1, None), None)
    return function if isinstance(function, FunctionNode) else None


def method_of(node: ast.AST, definition: ast.ClassDef) -> FunctionNode | None:
    """The method of a class in whose own code a node stands."""
    scope = scope_of(node).function
    if scope is None or scope.parent is None or scope.parent.node is not definition:
        return None
    return scope.node if isinstance(scope.node, FunctionNode) else None


def is_attribute_of_self(attribute: ast.Attribute, method: FunctionNode) -> bool:
    """Whether an attribute is one of the method's own object."""
    own = [each.arg for each in positional_of(method)[:1]]
    return isinstance(attribute.value, ast.Name) and [attribute.value.id] == own


def is_static(function: FunctionNode) -> bool:
    """Whether a function in a class gets no object."""
    return _decorated_as(function, "staticmethod")


def is_property(node: ast.AST) -> bool:
    """Whether a definition is a method that is read like an attribute."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(last_name(each) in ("property", "cached_property") for each in decorators)


def is_class_method(function: FunctionNode) -> bool:
    """Whether a function in a class gets the class."""
    return _decorated_as(function, "classmethod") or getattr(function, "name", "") == "__new__"


def _decorated_as(function: FunctionNode, name: str) -> bool:
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return any(last_name(each) == name for each in decorators)


class _IndexWalk:
    """The one walk over a tree, which fills a FileIndex."""

    def __init__(self, index: FileIndex) -> None:
        self.index = index
        self.stack: list[tuple[ast.AST, ast.AST | None, Scope]] = [(index.tree, None, index.module)]
        self.handlers: dict[type[ast.AST], Callable[..., bool | None]] = {
            ast.Name: self.name,
            ast.Attribute: self.attribute,
            ast.Call: self.call,
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.AugAssign: self.augmented,
            ast.NamedExpr: self.walrus,
            ast.For: self.loop,
            ast.AsyncFor: self.loop,
            ast.comprehension: self.loop,
            ast.withitem: self.entered,
            ast.Import: self.imported,
            ast.ImportFrom: self.imported_from,
            ast.FunctionDef: self.function,
            ast.AsyncFunctionDef: self.function,
            ast.Lambda: self.function,
            ast.ClassDef: self.class_definition,
            ast.Global: self.handed_over,
            ast.Nonlocal: self.handed_over,
            ast.ExceptHandler: self.named,
            ast.MatchAs: self.named,
            ast.MatchStar: self.named,
            ast.Yield: self.yields,
            ast.YieldFrom: self.yields,
        }

    def run(self) -> dict[type[ast.AST], list[ast.AST]]:
        """Fill the index; the nodes that were come by, by their kinds."""
        stack, handlers = self.stack, self.handlers
        nodes: dict[type[ast.AST], list[ast.AST]] = {}
        while stack:
            node, parent, scope = stack.pop()
            attributes = node.__dict__
            attributes[PARENT], attributes[SCOPE] = parent, scope
            kind = node.__class__
            if kind in nodes:
                nodes[kind].append(node)
            else:
                nodes[kind] = [node]
            handler = handlers.get(kind)
            # What opens a scope pushes its own children.
            if handler is not None and handler(node, scope):
                continue
            if kind in COMPREHENSIONS:
                scope = self.index.scopes[node] = Scope(self.index, node, scope)
            if fields := FIELDS[kind] if kind in FIELDS else fields_of(kind):
                self.push(node, fields, scope)
        return nodes

    def push(self, node: ast.AST, fields: tuple[str, ...], scope: Scope) -> None:
        """Put the children of these fields on the stack, so that they come in source order."""
        stack, attributes = self.stack, node.__dict__
        for name in reversed(fields):
            value = attributes.get(name)
            if value.__class__ is list:
                stack += [(each, node, scope) for each in reversed(value) if each is not None]
            elif isinstance(value, ast.AST):
                stack.append((value, node, scope))

    def bind(self, scope: Scope, binding: Binding) -> None:
        scope.elsewhere.get(binding.name, scope).bindings.setdefault(binding.name, []).append(binding)

    def name(self, node: ast.Name, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Load:
            self.index.names.setdefault(node.id, []).append(node)
        elif node.ctx.__class__ is ast.Del:
            self.bind(scope, Binding(node.id, BindingKind.OTHER, node))

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Load:
            self.index.attributes.setdefault(node.attr, []).append(node)

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.index.calls.append(node)
        name = last_name(node.func)
        if name in ("getattr", "setattr") and len(node.args) >= 2:
            named = attribute_of_getattr(node)
            if named is not None and name == "getattr":
                self.index.attributes.setdefault(named.attr, []).append(named)
            elif named is not None and len(node.args) == 3:
                self.target(named, BindingKind.ASSIGNED, node, node.args[2], scope)

    def target(
        self, target: ast.expr, kind: BindingKind, node: ast.AST, value: ast.expr | None, scope: Scope
    ) -> None:
        """Bind what stands left of a `=`; names side by side get their own part of a written tuple."""
        pending: list[tuple[ast.expr, ast.expr | None, int | None]] = [(target, value, None)]
        while pending:
            each, given, item = pending.pop()
            if isinstance(each, ast.Name):
                self.bind(scope, Binding(each.id, kind, node, given, item))
            elif isinstance(each, ast.Attribute):
                written = dotted_name(each) or f"?.{each.attr}"
                stored = Binding(written, kind, each, given, item)
                self.index.set_attributes.setdefault(each.attr, []).append(stored)
            elif isinstance(each, ast.Subscript):
                key = each.slice.value if isinstance(each.slice, ast.Constant) else ""
                if isinstance(key, str):
                    found = self.index.set_items.setdefault(key, [])
                    found.append(Binding(last_name(each.value) or "?", kind, each, given, item))
            elif isinstance(each, ast.Starred):
                pending.append((each.value, given, item))
            elif isinstance(each, ast.Tuple | ast.List):
                # Which part of which value that is, is asked of a loop.
                whole = None if kind is BindingKind.LOOPED else given
                pending.extend(unpacked_parts(each, whole, item, partial(_part_of, node, scope)))

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self.target(target, BindingKind.ASSIGNED, node, node.value, scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.target(node.target, BindingKind.ASSIGNED, node, node.value, scope)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self.target(node.target, BindingKind.CHANGED, node, node.value, scope)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        self.target(node.target, BindingKind.ASSIGNED, node, node.value, scope)

    def loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        self.target(node.target, BindingKind.LOOPED, node, node.iter, scope)

    def entered(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self.target(node.optional_vars, BindingKind.ENTERED, node, node.context_expr, scope)

    def imported(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            whole = Binding(name, BindingKind.IMPORTED, node, module=alias.name)
            self.index.imports.append(whole)
            # `import a.b` binds `a` alone.
            first = whole if alias.asname else Binding(name, BindingKind.IMPORTED, node, module=name)
            self.bind(scope, first)

    def imported_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.index.stars.append(module)
                self.index.imports.append(Binding("*", BindingKind.IMPORTED, node, module=module))
                continue
            whole = module + ("" if module.endswith(".") else ".") + alias.name
            binding = Binding(alias.asname or alias.name, BindingKind.IMPORTED, node, module=whole)
            self.index.imports.append(binding)
            self.bind(scope, binding)

    def function(self, node: FunctionNode, scope: Scope) -> bool:
        if not isinstance(node, ast.Lambda):
            self.bind(scope, Binding(node.name, BindingKind.DEFINED, node))
            self.index.functions.append(node)
        inner = self.index.scopes[node] = Scope(self.index, node, scope)
        for each in (*parameters_of(node), node.args.vararg, node.args.kwarg):
            if each is not None:
                self.bind(inner, Binding(each.arg, BindingKind.PARAMETER, each))
        self.push(node, ("body",), inner)
        self.push(node, ("decorator_list", "args", "returns"), scope)
        return True

    def class_definition(self, node: ast.ClassDef, scope: Scope) -> bool:
        self.bind(scope, Binding(node.name, BindingKind.DEFINED, node))
        self.index.classes.append(node)
        inner = self.index.scopes[node] = Scope(self.index, node, scope)
        self.push(node, ("body",), inner)
        self.push(node, ("decorator_list", "bases", "keywords"), scope)
        return True

    def handed_over(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        for name in node.names:
            holder = self.index.module
            if isinstance(node, ast.Nonlocal) and scope.parent is not None:
                holder = scope.parent.holder_of(name) or holder
            if holder is not scope:
                scope.elsewhere[name] = holder

    def named(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self.bind(scope, Binding(node.name, BindingKind.OTHER, node))

    def yields(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
        if scope.function is not None:
            self.index.yields_of.setdefault(scope.function.node, []).append(node)


def _part_of(node: ast.AST, scope: Scope, value: ast.expr, place: ast.expr) -> ast.Subscript:
    """A part of what a statement unpacks, as an expression in its place."""
    part = ast.copy_location(ast.Subscript(value, place, ast.Load()), value)
    part.__dict__.update({PARENT: node, SCOPE: scope})
    return part


# The files of a program together.


@frozen
class Unread:
    """A file that could not be read as Python: why, and at which line and column where that is known."""

    path: Path
    reason: str
    line: int = 1
    column: int = 1


@dataclass(eq=False)
class ProgramFiles:
    """What runs when `entry` is started: itself and the files below `root` that it imports, in that order.

    `unread` are those among them that are no readable Python. `modules` are the files by their dotted names,
    as the program's imports name them. `words` and `variables` are those that a job starts it with. `find`
    looks for a module by its name, also where no import names it, and `entries` gives the names in a folder
    below the root that has modules."""

    entry: FileIndex
    root: Path
    files: tuple[FileIndex, ...]
    unread: tuple[Unread, ...] = ()
    modules: dict[str, FileIndex] = field(default_factory=dict)
    words: tuple[str, ...] | None = None
    variables: Mapping[str, str] | None = None
    find: Callable[[str], FileIndex | None] = lambda name: None
    entries: Callable[[str], list[str]] = lambda folder: []
    _names: dict[FileIndex, str] = field(default_factory=dict)
    _known_as: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Name each file by the first name that an import gives it."""
        for name, file in self.modules.items():
            self._names.setdefault(file, name)

    def known_as(self, lasts: Iterable[str]) -> frozenset[str]:
        """These last names, and those that imports and assignments of the program give to what has them."""
        wanted = known = frozenset(lasts)
        if wanted in self._known_as:
            return self._known_as[wanted]
        for _ in range(3):  # So often at most is one thing renamed.
            known |= {alias for last in known for alias in self._aliases.get(last, ())}
        return self._known_as.setdefault(wanted, known)

    def mentioning(self, *lasts: str) -> list[FileIndex]:
        """The files that read, set or import something of one of these last names, in the program's order.

        Of hundreds of files few do, and only these are worth looking into.
        """
        if len(lasts) == 1:
            return self._mentions.get(lasts[0], [])
        found = {file for last in lasts for file in self._mentions.get(last, ())}
        return sorted(found, key=self._positions.__getitem__)

    @cached_property
    def _mentions(self) -> dict[str, list[FileIndex]]:
        found: dict[str, list[FileIndex]] = {}
        for file in self.files:
            for name in file.mentioned:
                found.setdefault(name, []).append(file)
        return found

    def forget_what_is_called(self) -> None:
        """Find out anew what the files call and mention."""
        for name in ("_mentions", "_aliases"):
            self.__dict__.pop(name, None)
        self._known_as.clear()
        for file in self.files:
            file.forget_what_is_called()

    @cached_property
    def _positions(self) -> dict[FileIndex, int]:
        return {file: number for number, file in enumerate(self.files)}

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for file in self.files:
            for last, names in file.aliases.items():
                found.setdefault(last, set()).update(names)
        return found

    @cached_property
    def grown(self) -> dict[str | None, list[ast.expr | None]]:
        """What lists and dictionaries get later, by last names; None for more than `append`."""
        names = ("append", "extend", "insert", "update", "setdefault", "pop", "remove", "clear")
        found = defaultdict[str | None, list[ast.expr | None]](list)
        for call in (each for name in names for file in self.files for each in file.calls_of.get(name, ())):
            if isinstance(call.func, ast.Attribute):
                found[holder_name(call.func.value)] += call.args[:1] if call.func.attr == "append" else [None]
        assigned = (each for file in self.files for each in file.nodes(ast.Assign))
        targets = (each for one in assigned for each in one.targets)
        found.update((last_name(each.value), [None]) for each in targets if isinstance(each, ast.Subscript))
        return found

    def module(self, name: str, importer: FileIndex) -> FileIndex | None:
        """The file of an imported name, with a dot in front for each level of a relative import."""
        return self.modules.get(absolute_module_name(name, self.module_name(importer), is_package(importer)))

    def module_name(self, file: FileIndex) -> str:
        """The dotted name of a file of the program; the entry's is that of its file."""
        return self._names.get(file, file.path.stem)


def absolute_module_name(name: str, importer: str, importer_is_package: bool) -> str:
    """A relative import as an absolute one: `..layers.norm` of `models.vit.block` is `models.layers.norm`."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if not level:
        return name
    parents = importer.split(".") if importer else []
    up = level - 1 if importer_is_package else level
    kept = parents[: max(0, len(parents) - up)]
    return ".".join(part for part in (*kept, bare) if part)


def is_package(file: FileIndex) -> bool:
    """Whether a file is what an import of its folder runs."""
    return file.path.name == "__init__.py"
