"""What an expression is: through imports, assignments, attributes, calls, results and parameters.

The order of statements counts within a function (a later assignment replaces an earlier one where it surely
runs); between functions all assignments count. Parameters have what every call gives them; an environment of
known arguments, where one is given, goes before.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from launcher.scripts.attributes import Attributes
from launcher.scripts.callers import Callers
from launcher.scripts.calling import Calls
from launcher.scripts.names import SPOKEN_FOR, canonical
from launcher.scripts.parameters import Parameters
from launcher.scripts.ranks import rank_of
from launcher.scripts.reaching import reaching
from launcher.scripts.scopes import (
    Binding,
    BindingKind,
    Scope,
    file_of,
    function_of_parameter,
    scope_of,
)
from launcher.scripts.values import (
    UNKNOWN,
    Constant,
    Defined,
    Either,
    External,
    Instance,
    Made,
    ModuleOf,
    Nothing,
    RankKind,
    RankValue,
    Several,
    Value,
    WorldSize,
    joined,
)

if TYPE_CHECKING:
    from launcher.scripts.index import FileIndex
    from launcher.scripts.program import Program

Environment = Mapping[ast.AST, Value]
"""What parameters are in one call, by the nodes of the parameters."""

_DEEPEST = 40
"""So many steps from an expression to its source; what lies deeper is unknown."""

_MOST_STEPS = 1000
"""So many expressions are looked at for one; what needs more is unknown. A sound program needs a tenth."""

_BUILTINS = frozenset(dir(builtins))


class Evaluation:
    """The expressions of one program; everything is found out once."""

    def __init__(self, program: Program) -> None:
        """Nothing is evaluated before somebody asks."""
        self.program = program
        self.callers = Callers(program, self)
        self.attributes = Attributes(self)
        self.calls = Calls(self)
        self.parameters = Parameters(self)
        self._known: dict[ast.AST, Value] = {}
        self._libraries: dict[Binding, Value] = {}
        self.open: set[ast.AST] = set()
        """What is being found out: it depends on itself where somebody asks again."""
        self._depth = 0
        self._steps = 0
        self._kinds: dict[type[ast.expr], Callable[[ast.expr, Environment | None], Value]] = {
            ast.Constant: self._constant,  # type: ignore[dict-item]
            ast.Name: self._name,  # type: ignore[dict-item]
            ast.Attribute: self.attributes.value,  # type: ignore[dict-item]
            ast.Call: self.calls.value,  # type: ignore[dict-item]
            ast.Subscript: self._subscript,  # type: ignore[dict-item]
            ast.IfExp: self._conditional,  # type: ignore[dict-item]
            ast.BoolOp: self._either_of,  # type: ignore[dict-item]
            ast.BinOp: self._calculated,  # type: ignore[dict-item]
            ast.UnaryOp: self._unary,  # type: ignore[dict-item]
            ast.NamedExpr: self._walrus,  # type: ignore[dict-item]
        }

    def value(self, node: ast.expr, environment: Environment | None = None) -> Value:
        """What an expression is, in a call with these arguments, or in every call."""
        if environment and _is_of(environment, node):
            return self._evaluated(node, environment)
        found = self._known.get(node)
        if found is None:
            if node in self.open:
                return Nothing.ITSELF
            self.open.add(node)
            try:
                found = self._evaluated(node, None)
            finally:
                self.open.discard(node)
            if found is not Nothing.ITSELF:
                self._known[node] = found
        return found

    def _evaluated(self, node: ast.expr, environment: Environment | None) -> Value:
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        if self._depth >= _DEEPEST or self._steps > _MOST_STEPS:
            return UNKNOWN
        self._depth += 1
        try:
            if isinstance(node, ast.Tuple | ast.List):
                return Several(node)
            if isinstance(node, ast.Lambda):
                return Defined(node)
            evaluate = self._kinds.get(type(node))
            return UNKNOWN if evaluate is None else evaluate(node, environment)
        finally:
            self._depth -= 1

    def sources(self, node: ast.expr) -> list[Binding]:
        """Where a name or attribute that is used here may have got its value; empty where that is unknown."""
        if isinstance(node, ast.Name):
            holder = scope_of(node).holder_of(node.id)
            return [] if holder is None else reaching(holder, node)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, Made):
                return self.attributes.of_class(owner.definition, node.attr)
            if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
                return self.attributes.of_class_itself(owner.node, node.attr)
            if isinstance(owner, ModuleOf):
                return owner.file.module.bindings.get(node.attr, [])
            return list(self.attributes.stores(node, owner))
        return []

    # Names

    def _name(self, node: ast.Name, environment: Environment | None) -> Value:
        holder = scope_of(node).holder_of(node.id)
        if holder is None:
            return self._free(node)
        bindings = reaching(holder, node)
        imports = [each for each in bindings if each.kind is BindingKind.IMPORTED]
        if len(imports) > 1 and (len(imports) == len(bindings) or len({each.module for each in imports}) > 1):
            # The same again, or alternatives of a try statement: the first that there is.
            bindings = imports[:1]
        return self.any_of(bindings, environment)

    def any_of(self, bindings: Sequence[Binding], environment: Environment | None) -> Value:
        """What a name is that may have got its value from any of these.

        A number that is changed is none, and a rank on the host to which something is added is another rank.
        """
        value = joined(self.bound(each, environment) for each in bindings)
        if not any(each.kind is BindingKind.CHANGED for each in bindings):
            return value
        if isinstance(value, RankValue) and value.kind is RankKind.LOCAL:
            return RankValue(RankKind.DERIVED, value.source)
        return UNKNOWN if isinstance(value, Constant) else value

    def _free(self, node: ast.Name) -> Value:
        """A name that is bound nowhere in its file: a builtin, or from a `import *`."""
        file = file_of(node)
        for star in file.stars:
            module = self.program.module(star, file)
            if module is not None and node.id in module.module.bindings:
                return self.member(module.module, node.id)
        if node.id in _BUILTINS:
            return External(node.id)
        foreign = [star for star in file.stars if self.program.module(star, file) is None]
        if len(foreign) == 1 and not foreign[0].startswith("."):
            return self._external(f"{foreign[0]}.{node.id}")
        return UNKNOWN

    def member(self, scope: Scope, name: str) -> Value:
        """What a name of a module or class is, seen from outside."""
        return self.any_of(scope.bindings.get(name, ()), None)

    def bound(self, binding: Binding, environment: Environment | None) -> Value:
        """What one binding gives its name."""
        if binding.kind is BindingKind.IMPORTED:
            return self._imported(binding)
        if binding.kind is BindingKind.DEFINED:
            node = binding.node
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            return Defined(node)
        if binding.kind is BindingKind.PARAMETER:
            return self.parameters.value(binding.node, environment)
        if binding.kind is BindingKind.CHANGED and binding.value is not None:
            return _derived(Nothing.ITSELF, self.value(binding.value, environment))
        if binding.kind is BindingKind.ENTERED and binding.value is not None and binding.item is None:
            entered = self.value(binding.value, environment)
            return entered if isinstance(entered, Instance) else UNKNOWN
        if binding.kind is BindingKind.ASSIGNED and binding.value is not None:
            whole = self.value(binding.value, environment)
            return whole if binding.item is None else self._part(whole, binding.item, environment)
        return UNKNOWN

    def _part(self, whole: Value, item: int, environment: Environment | None) -> Value:
        if isinstance(whole, Several) and item < len(whole.node.elts):
            return self.value(whole.node.elts[item], environment)
        if isinstance(whole, Instance) and whole.item is None:
            return Instance(whole.name, whole.call, item)
        if isinstance(whole, Either):  # Such as the results of a function with several returns.
            return joined(self._part(each, item, environment) for each in whole.values)
        return UNKNOWN

    def _imported(self, binding: Binding) -> Value:
        known = self._libraries.get(binding)
        if known is None:
            known = self._of_import(binding)
            if isinstance(known, External):  # What is the program's own is known where it is bound.
                self._libraries[binding] = known
        return known

    def _of_import(self, binding: Binding) -> Value:
        name = binding.module or ""
        if canonical(name) in SPOKEN_FOR:
            return self._external(name)
        file = file_of(binding.node)
        module = self.program.module(name, file)
        package, _, last = name.rpartition(".")
        if last and name.startswith(".") and not package.strip("."):
            package = name[: len(name) - len(last)]
        holder = self.program.module(package, file) if last else None
        held = holder is not None and holder is not file and last in holder.module.bindings
        if holder is not None and held and (module is None or isinstance(binding.node, ast.ImportFrom)):
            return self.member(holder.module, last)
        if module is not None:
            return ModuleOf(module)
        if holder is not None and holder is not file:
            return self._through_star(holder, last)
        return UNKNOWN if name.startswith(".") else self._external(name)

    def _through_star(self, file: FileIndex, name: str) -> Value:
        for star in file.stars:
            module = self.program.module(star, file)
            if module is not None and name in module.module.bindings:
                return self.member(module.module, name)
        return UNKNOWN

    def _external(self, name: str) -> Value:
        name = canonical(name)
        return rank_of(name) if name.endswith("COMM_WORLD.rank") else External(name)  # type: ignore[return-value]

    # Other expressions

    def _constant(self, node: ast.Constant, environment: Environment | None) -> Value:
        value = node.value
        return Constant(value) if value is None or isinstance(value, bool | int | float | str) else UNKNOWN

    def _subscript(self, node: ast.Subscript, environment: Environment | None) -> Value:
        owner = self.value(node.value, environment)
        if owner == External("os.environ"):
            return self.calls.variable(node.slice, environment)
        index = self.value(node.slice, environment)
        if isinstance(index, Constant) and isinstance(index.value, int) and index.value >= 0:
            return self._part(owner, index.value, environment)
        return UNKNOWN

    def _conditional(self, node: ast.IfExp, environment: Environment | None) -> Value:
        return joined((self.value(node.body, environment), self.value(node.orelse, environment)))

    def _either_of(self, node: ast.BoolOp, environment: Environment | None) -> Value:
        return joined(self.value(each, environment) for each in node.values)

    def _calculated(self, node: ast.BinOp, environment: Environment | None) -> Value:
        left, right = self.value(node.left, environment), self.value(node.right, environment)
        return _derived(left, right)

    def _unary(self, node: ast.UnaryOp, environment: Environment | None) -> Value:
        value = self.value(node.operand, environment)
        if (
            isinstance(node.op, ast.USub)
            and isinstance(value, Constant)
            and isinstance(value.value, int | float)
        ):
            return Constant(-value.value)
        return UNKNOWN

    def _walrus(self, node: ast.NamedExpr, environment: Environment | None) -> Value:
        return self.value(node.value, environment)


def _is_of(environment: Environment, node: ast.expr) -> bool:
    """Whether a node stands in the function whose parameters the environment holds."""
    function = function_of_parameter(next(iter(environment)))
    scope = scope_of(node).function
    while scope is not None and scope.node is not function:
        scope = None if scope.parent is None else scope.parent.function
    return scope is not None


def _derived(left: Value, right: Value) -> Value:
    """What is calculated from two values."""
    ranks = [each for each in (left, right) if isinstance(each, RankValue)]
    if ranks:
        return RankValue(RankKind.DERIVED, ranks[0].source)
    if Nothing.ITSELF in (left, right):
        return Nothing.ITSELF
    sizes = [each for each in (left, right) if isinstance(each, WorldSize)]
    if sizes and all(isinstance(each, WorldSize | Constant) for each in (left, right)):
        return sizes[0]
    return UNKNOWN
