"""The expressions of a program that is run on its syntax tree."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import commonprefix
from typing import Any

from launcher.program.evaluators.arithmetic import ARITHMETIC, COMPARISONS
from launcher.program.execution.objects import (
    MOST_CHOICES,
    MOST_ITEMS,
    OPEN,
    SCALARS,
    BoundCall,
    Class,
    Defaulting,
    DottedEntries,
    Environ,
    Function,
    ModuleEntries,
    Native,
    Object,
    OneOf,
    OpenDictionary,
    OpenedFile,
    OutOfSteps,
    Raised,
    RunScope,
    Symbol,
    Turns,
    bounded,
    is_known,
    is_of_numpy,
    text_of,
    truth_of,
)
from launcher.program.execution.written_trees import stand_at

_CALCULATED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    **ARITHMETIC,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_LONGEST_TEXT = 200
"""Of what `eval` is given, in characters."""
SLICED = "[:]"
"""The attribute of a part of what is open that holds where the slice begins and ends, and its step."""
_LARGEST_POWER = 64
_MOST_COUNTED = 64
"""So many numbers of a range are gone through one by one: tables of positions have thousands."""
_NUMBERS = (bool, int, float)
_GROWING = frozenset({int, str, bytes, list, tuple, dict, set, frozenset, PurePosixPath})
"""What may grow beyond all bounds."""

_KINDS = (Class, Native)
_ALIKE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)


class Expressions(ABC):
    """What the expressions of a program are, each worked out once for each time that it is run."""

    most_steps = 150_000

    def __init__(self) -> None:
        """Nothing has run."""
        self.steps = 0
        self.at = ast.Call(ast.Name("?"), [], [])
        """The call that is made."""
        self.tests: list[ast.AST] = []
        """The tests around this place that nobody can tell."""
        self.keys: set[str] = set()
        """The texts by which entries are read of what a library gave."""
        self.texts: dict[str, dict[ast.expr, None]] = {}
        """The literal texts that are come to, with their places."""
        self.period = 0
        """In how many turns of a loop this place is come to once, by a test of a counter: `step % 8 == 0`."""
        self.turns = 0
        """How many turns the innermost loop makes, 0 where nobody counts them."""
        self.truths: dict[ast.expr, bool | None] = {}
        """What the tests were that are come to, None where nobody can tell or they were both."""
        self.tries = 0
        """How many `try` blocks are around this place."""
        self.statements_of: Callable[[str], list[ast.stmt] | None] = lambda name: None
        """The statements of a module of the program, None where there is no such module."""
        self.read_here: list[str] = []
        """The files whose statements are run in another one."""
        self.active: list[Function] = []
        """The functions in which this place is, the outermost first."""

    @abstractmethod
    def is_tried(self) -> bool:
        """Whether a `try` is around this place after which the program goes on."""

    @abstractmethod
    def run(self, statements: Iterable[ast.stmt], scope: RunScope) -> None:
        """Run statements one after the other."""

    @abstractmethod
    def call(self, function: object, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> object:
        """What a call gives."""

    @abstractmethod
    def attribute(self, owner: object, name: str, node: ast.AST) -> object:
        """An attribute of anything."""

    @abstractmethod
    def unbound_name(self, node: ast.Name, scope: RunScope) -> object:
        """What Python has of a name to which the program has given nothing yet."""

    @abstractmethod
    def assign(self, target: ast.expr, value: object, scope: RunScope) -> None:
        """Give a value to a name, an attribute, an item or several of them."""

    @abstractmethod
    def call_method(self, owner: object, name: str, args: list[Any], node: ast.AST) -> object:
        """What a special method of a program's object gives; NotImplemented where it has none."""

    @abstractmethod
    def unset_variable(self, environ: Environ, key: Any, node: ast.AST) -> object:
        """What a variable is that is read and that nobody is known to set."""

    @abstractmethod
    def python_name(self, name: str, scope: RunScope) -> object:
        """What Python itself has of a name that no scope holds, or the library of which all is imported."""

    def fail(self, name: str) -> Symbol:
        """An exception that Python raises, where somebody may catch it; elsewhere something unknown.

        That it is raised is more often a value that the job's own run has and this one does not.
        """
        if self.is_tried():
            raise Raised(name)
        return Symbol()

    def evaluate(self, node: ast.expr, scope: RunScope) -> Any:
        """What an expression is."""
        self.steps += 1
        if self.steps > self.most_steps:
            raise OutOfSteps
        kind = type(node)
        if kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if type(value) is str:
                self.texts.setdefault(value, {})[node] = None
            return value
        way = _WAYS.get(kind)
        found = Symbol() if way is None else way(self, node, scope)
        return bounded(found) if type(found) in _GROWING else found

    def _name(self, node: ast.Name, scope: RunScope) -> object:
        holder = scope.holder(node.id)
        return self.unbound_name(node, scope) if holder is None else holder.variables[node.id]

    def _attribute(self, node: ast.Attribute, scope: RunScope) -> object:
        return self.attribute(self.evaluate(node.value, scope), node.attr, node)

    def _list(self, node: ast.List, scope: RunScope) -> object:
        return list(self._items(node.elts, scope))

    def _tuple(self, node: ast.Tuple, scope: RunScope) -> object:
        return tuple(self._items(node.elts, scope))

    def _set(self, node: ast.Set, scope: RunScope) -> object:
        items = list(self._items(node.elts, scope))
        return set(items) if all(map(is_known, items)) else Symbol()

    def _items(self, nodes: list[ast.expr], scope: RunScope) -> Iterator[object]:
        for each in nodes:
            if isinstance(each, ast.Starred):
                yield from self.items_of(self.evaluate(each.value, scope), each)
            else:
                yield self.evaluate(each, scope)

    def _dict(self, node: ast.Dict, scope: RunScope) -> object:
        found: dict[object, object] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            given = self.evaluate(value, scope)
            if key is None:
                given = given.native if isinstance(given, Object) else given
                if isinstance(given, Symbol | OpenDictionary):
                    found = OpenDictionary.fromkeys(found, Symbol())
                found.update(given if isinstance(given, dict) else {})
                continue
            name = self.evaluate(key, scope)
            found[name if is_known(name) else id(key)] = given
        return found

    def _joined(self, node: ast.JoinedStr, scope: RunScope) -> object:
        return "".join(self._part(each, scope) for each in node.values)

    def _part(self, node: ast.expr, scope: RunScope) -> str:
        if not isinstance(node, ast.FormattedValue):
            return text_of(self.evaluate(node, scope))
        value = self.written(self.evaluate(node.value, scope))
        form = "" if node.format_spec is None else self.evaluate(node.format_spec, scope)
        return format_value(value, form if isinstance(form, str) else OPEN)

    def written(self, value: object) -> object:
        """A value in a text: a program's object as it says itself."""
        found = self.call_method(value, "__str__", [], self.at) if isinstance(value, Object) else value
        return Symbol() if found is NotImplemented else found

    def _named(self, node: ast.NamedExpr, scope: RunScope) -> object:
        value = self.evaluate(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def _binary(self, node: ast.BinOp, scope: RunScope) -> object:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        found = self.calculate(type(node.op), left, right, node)
        if isinstance(node.op, ast.Mod) and isinstance(found, Symbol) and isinstance(right, int):
            found.period = right
        return found

    def calculate(self, sign: type[ast.operator], left: Any, right: Any, node: ast.AST) -> object:
        """What two values come to."""
        if sign is ast.Div and isinstance(left, Object | PurePosixPath | str):
            if isinstance(left, PurePosixPath):
                return left / text_of(right)
            return (
                self.call_method(left, "__truediv__", [right], node) if isinstance(left, Object) else Symbol()
            )
        if sign is ast.Mod and isinstance(left, str):
            return format_old(left, right)
        if sign is ast.Add and isinstance(left, str | Symbol) and isinstance(right, str | Symbol):
            is_text = isinstance(left, str) or isinstance(right, str)
            return text_of(left) + text_of(right) if is_text else Symbol()
        numbers = isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)
        lists = isinstance(left, list | tuple | set | dict) and isinstance(right, type(left))
        if sign is ast.Pow and numbers and 0 <= right <= _LARGEST_POWER and abs(left) <= 2**16:
            return left**right
        if (
            sign is ast.Mult
            and isinstance(left, list | str)
            and isinstance(right, int)
            and right <= MOST_ITEMS
        ):
            return left * right if len(left) * right <= MOST_ITEMS else Symbol()
        combine = _CALCULATED.get(sign)
        if combine is None or not (numbers or (lists and sign in (ast.Add, ast.BitOr, ast.Sub, ast.BitAnd))):
            is_own = any(isinstance(each, Symbol) and each.is_own for each in (left, right))
            plain = all(isinstance(each, _NUMBERS) or is_of_numpy(each) for each in (left, right))
            return Symbol("numpy.float64()" if plain else "", is_own=is_own)
        try:
            return combine(left, right)
        except (ArithmeticError, TypeError, ValueError):
            return Symbol()

    def _unary(self, node: ast.UnaryOp, scope: RunScope) -> object:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            truth = truth_of(value)
            return open_test(value) if truth is None else not truth
        if isinstance(node.op, ast.USub) and isinstance(value, _NUMBERS):
            return -value
        return value if isinstance(node.op, ast.UAdd) else Symbol()

    def _boolean(self, node: ast.BoolOp, scope: RunScope) -> object:
        decides = isinstance(node.op, ast.Or)
        value: Any = None
        untold: list[object] = []
        try:
            for each in node.values:
                value = self.evaluate(each, scope)
                truth = truth_of(value)
                self.keep_truth(each, truth)
                if truth is decides:
                    return value if not untold or truth_of(value) is False or decides else Symbol()
                if truth is None:
                    untold.append(value)
                    self.tests.append(each)
        finally:
            del self.tests[len(self.tests) - len(untold) :]
        return open_test(*untold) if untold else value

    def _compare(self, node: ast.Compare, scope: RunScope) -> object:
        left, found = self.evaluate(node.left, scope), True
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(each, scope)
            truth = self.compare(sign, left, right)
            if truth is None and (is_of_numpy(left) or is_of_numpy(right)):
                return Symbol("numpy.bool_()")
            if truth is None:
                return open_test(left, right)
            found, left = found and truth, right
        return found

    def compare(self, sign: ast.cmpop, left: Any, right: Any) -> bool | None:
        """What a comparison of two values is, None where nobody can tell."""
        if isinstance(sign, ast.In | ast.NotIn):
            there = contains(right, left)
            return None if there is None else there is isinstance(sign, ast.In)
        if isinstance(sign, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) and (left is None or right is None):
            other = right if left is None else left
            if isinstance(other, Symbol) and not (other.name.endswith("()") and is_made(other.name)):
                return None
            return (other is None) is isinstance(sign, ast.Is | ast.Eq)
        if isinstance(left, _KINDS) and isinstance(right, _KINDS) and isinstance(sign, _ALIKE):
            return (left is right) is isinstance(sign, ast.Eq | ast.Is)
        if isinstance(sign, ast.Is | ast.IsNot):
            if left is right:
                return isinstance(sign, ast.Is)
            known = not isinstance(left, Symbol) and not isinstance(right, Symbol)
            return (left == right) is isinstance(sign, ast.Is) if known and is_known(left) else None
        if isinstance(left, list) and isinstance(right, list):
            left, right = tuple(left), tuple(right)
        if isinstance(left, Symbol) and isinstance(right, Symbol) and left.name and left.name == right.name:
            return isinstance(sign, ast.Eq) if not left.name.endswith(")") else None
        if not (is_known(left) and is_known(right)):
            return None
        try:
            return bool(COMPARISONS[type(sign)](left, right))
        except TypeError:
            return None

    def keep_truth(self, test: ast.expr, truth: bool | None) -> None:
        """Keep what a test was, as long as it is always the same."""
        self.truths[test] = truth if self.truths.get(test, truth) is truth else None

    def _choice(self, node: ast.IfExp, scope: RunScope) -> object:
        truth = self.truth(self.evaluate(node.test, scope))
        self.keep_truth(node.test, truth)
        if truth is not None:
            return self.evaluate(node.body if truth else node.orelse, scope)
        self.tests.append(node.test)
        try:
            return joined(self.evaluate(node.body, scope), self.evaluate(node.orelse, scope))
        finally:
            self.tests.pop()

    def truth(self, value: object) -> bool | None:
        """Whether a value is true: also of a program's object that says so itself."""
        if isinstance(value, Object):
            for name in ("__bool__", "__len__"):
                found = self.call_method(value, name, [], value.kind.node)
                if found is not NotImplemented:
                    return truth_of(found)
        return truth_of(value)

    def _subscript(self, node: ast.Subscript, scope: RunScope) -> object:
        owner = self.evaluate(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            ends = [None if each is None else self.evaluate(each, scope) for each in _ends(node.slice)]
            whole = isinstance(owner, str | list | tuple) and ends[2] != 0
            whole &= all(each is None or isinstance(each, int) for each in ends)
            if whole:
                return owner[slice(*ends)]
            part = Symbol(item_name(getattr(owner, "name", "")), owner=owner)
            part.attributes[SLICED] = ends
            return part
        return self.item(owner, self.evaluate(node.slice, scope), node)

    def item(self, owner: Any, key: Any, node: ast.AST) -> object:
        """An item of anything."""
        if isinstance(owner, Object):
            found = self.call_method(owner, "__getitem__", [key], node)
            if found is not NotImplemented:
                return found
            owner = tuple(owner.attributes.values()) if owner.kind.is_tuple else owner.native
        if isinstance(owner, dict):
            if not is_known(key):
                return chosen(list(owner.values()))
            if key in owner:
                return owner[key]
            if isinstance(owner, Environ):
                return self.unset_variable(owner, key, node)
            if isinstance(owner, Defaulting):
                return owner.missing(key)
            if isinstance(owner, OpenDictionary):
                return Symbol()
            return self.fail("KeyError")
        if isinstance(owner, list | tuple | str | range) and isinstance(key, int):
            if -len(owner) <= key < len(owner):
                return owner[key]
            return self.fail("IndexError")
        if isinstance(owner, list | tuple) and isinstance(key, Symbol):
            return chosen(list(owner))
        if isinstance(owner, Class | Function):
            member = owner.find(key) if isinstance(owner, Class) and isinstance(key, str) else None
            return member if isinstance(member, Object) else owner  # A generic class with its parameters.
        if isinstance(owner, Symbol):
            if isinstance(key, str):
                self.keys.add(key)
                if key in owner.attributes:
                    return owner.attributes[key]
            return Symbol(item_name(owner.name), owner=owner, is_own=owner.is_own)
        return Symbol()

    def _evaluated_text(self, text: object, node: ast.Call, scope: RunScope) -> object:
        """What `eval` gives of a text: `eval(f"args.{name}")`."""
        tree = _parsed(text, node, "eval")
        return self.evaluate(tree.body, scope) if isinstance(tree, ast.Expression) else Symbol()

    def _run_file(self, path: str, scope: RunScope) -> None:
        """What `exec(open(path).read())` does: the statements of a file of the source run here."""
        name = path.removeprefix("./").removesuffix(".py").replace("/", ".")
        if name not in self.read_here:
            self.read_here.append(name)
            try:
                self.run(self.statements_of(name) or [], scope)
            finally:
                self.read_here.pop()

    def _call(self, node: ast.Call, scope: RunScope) -> object:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self.call(self.python_name("super", scope), [scope], {}, node)
        function = self.evaluate(node.func, scope)
        if function is self.python_name("globals", scope):
            return ModuleEntries(scope.module.variables)
        args = list(self._items(node.args, scope))
        name = getattr(function, "name", "")
        if name == "builtins.eval" and len(args) == 1:
            return self._evaluated_text(args[0], node, scope)
        if (
            name == "builtins.exec"
            and args
            and isinstance(read := getattr(args[0], "owner", None), OpenedFile)
        ):
            self._run_file(read.name, scope)
            return None
        if name == "builtins.exec" and len(args) == 1:
            tree = _parsed(args[0], node, "exec")
            if isinstance(tree, ast.Module):
                self.run(tree.body, scope)
                return None
        keywords: dict[str, Any] = {}
        for each in node.keywords:
            value = self.evaluate(each.value, scope)
            value = value.native if isinstance(value, Object) and each.arg is None else value
            if each.arg is not None:
                keywords[each.arg] = value
                continue
            if isinstance(value, Symbol | OpenDictionary):
                keywords = OpenDictionary(keywords)
            if isinstance(value, dict):
                keywords.update({key: one for key, one in value.items() if isinstance(key, str)})
        return self.call(function, args, keywords, node)

    def _lambda(self, node: ast.Lambda, scope: RunScope) -> object:
        return Function(node, scope, self.defaults(node.args, scope))

    def defaults(self, arguments: ast.arguments, scope: RunScope) -> dict[str, object]:
        """What the parameters of a function are where nobody gives them."""
        positional = [*arguments.posonlyargs, *arguments.args]
        places = len(positional) - len(arguments.defaults)
        pairs = [*zip(positional[places:], arguments.defaults, strict=True)]
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        pairs += [(parameter, value) for parameter, value in named if value is not None]
        return {parameter.arg: self.evaluate(value, scope) for parameter, value in pairs}

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: RunScope
    ) -> object:
        inner = RunScope(scope.file, scope)
        found: list[Any] = []
        known = self._generate(node, list(node.generators), inner, found)
        if isinstance(node, ast.DictComp):
            return dict(found) if known and all(is_known(key) for key, _ in found) else Symbol()
        if isinstance(node, ast.SetComp):
            return set(found) if known and all(map(is_known, found)) else Symbol()
        return found if known else Symbol(owner=found)

    def _generate(self, node: Any, rest: list[ast.comprehension], scope: RunScope, found: list[Any]) -> bool:
        """Add what a comprehension holds; whether all of it is known."""
        if not rest:
            if isinstance(node, ast.DictComp):
                found.append((self.evaluate(node.key, scope), self.evaluate(node.value, scope)))
            else:
                found.append(self.evaluate(node.elt, scope))
            return True
        first, *others = rest
        over = self.evaluate(first.iter, scope)
        known = not isinstance(over, Symbol) and self.is_countable(over)
        for each in self.items_of(over, node):
            self.assign(first.target, each, scope)
            values = [self.evaluate(test, scope) for test in first.ifs]
            truths = [self.truth(value) for value in values]
            if False in truths:
                continue
            untold = [test for test, truth in zip(first.ifs, truths, strict=True) if truth is None]
            self.tests += untold
            before, self.period = self.period, max(self.period, open_test(*values).period)
            known = self._generate(node, others, scope, found) and known and not untold
            self.period = before
            del self.tests[len(self.tests) - len(untold) :]
        return known

    def is_countable(self, value: object) -> bool:
        """Whether all items of a value are known one by one."""
        if isinstance(value, Object) and value.kind.find("__iter__") is None:
            return value.kind.is_tuple or self.is_countable(value.native)
        if isinstance(value, range):
            return len(value) <= _MOST_COUNTED
        return isinstance(value, str | list | tuple | dict | set | frozenset)

    def items_of(self, value: object, node: ast.AST) -> list[Any]:
        """What a loop over a value goes through; of what nobody can count one item."""
        if isinstance(value, Object):
            found = self.call_method(value, "__iter__", [], node)
            if found is not NotImplemented and found is not value:
                return self.items_of(found, node)
            for name, args in (("__next__", []), ("__getitem__", [Symbol()])):
                item = self.call_method(value, name, args, node)
                if item is not NotImplemented:
                    return [item]
            if value.kind.is_tuple:
                return list(value.attributes.values())
            return [Symbol()] if value.native is None else self.items_of(value.native, node)
        if isinstance(value, Turns):
            return value[value.taken :][:MOST_ITEMS]
        if self.is_countable(value):
            return list(value)[:MOST_ITEMS]  # type: ignore[call-overload,no-any-return]
        if isinstance(value, Symbol) and isinstance(value.owner, list) and value.owner:
            return value.owner[:1]
        if isinstance(value, Symbol) and value.made_by is not None and _passes_on(value):
            return self.items_of(value.made_by.args[0], node)
        if not isinstance(value, Symbol):
            return [Symbol(owner=value)]
        if value.made_by is not None and value.name == "torch.utils.data.DataLoader()":
            self.take_sample(value.made_by.argument("dataset", 0), node)
        return [Symbol(item_name(value.name), owner=value)]

    @abstractmethod
    def take_sample(self, dataset: object, node: ast.AST) -> None:
        """Do what the workers of a loader do with its dataset, once."""

    def _awaited(self, node: ast.Await | ast.Starred, scope: RunScope) -> object:
        return self.evaluate(node.value, scope)

    def _yielded(self, node: ast.Yield | ast.YieldFrom, scope: RunScope) -> object:
        value = None if node.value is None else self.evaluate(node.value, scope)
        holder: RunScope | None = scope
        while holder is not None and "*yields" not in holder.variables:
            holder = holder.outer
        if holder is not None:
            body = holder.variables.pop("*body", None)
            if body is not None:
                body(value)
            items = self.items_of(value, node) if isinstance(node, ast.YieldFrom) else [value]
            holder.variables["*yields"].extend(items)
        return Symbol()


_WAYS: dict[type[ast.AST], Callable[[Any, Any, RunScope], Any]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.List: Expressions._list,
    ast.Tuple: Expressions._tuple,
    ast.Set: Expressions._set,
    ast.Dict: Expressions._dict,
    ast.JoinedStr: Expressions._joined,
    ast.NamedExpr: Expressions._named,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._choice,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions._call,
    ast.Lambda: Expressions._lambda,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.Await: Expressions._awaited,
    ast.Starred: Expressions._awaited,
    ast.Yield: Expressions._yielded,
    ast.YieldFrom: Expressions._yielded,
}


def open_test(*values: object) -> Symbol:
    """A test of values that nobody can tell, with the period of a counter among them."""
    made = Symbol()
    made.period = max((each.period for each in values if isinstance(each, Symbol)), default=0)
    return made


def _ends(node: ast.Slice) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    return node.lower, node.upper, node.step


def _passes_on(value: Symbol) -> bool:
    """Whether a library's object gives the items of its first argument: a progress bar, a prefetcher."""
    made = value.made_by
    last = "" if made is None else made.name.rpartition(".")[2].lower()
    return bool(made and made.args) and any(part in last for part in ("tqdm", "track", "progress"))


def item_name(owner: str) -> str:
    """The name of an item of something of a library."""
    return f"{owner}[]" if owner[:1] not in ("", "?") else ""


def is_made(name: str) -> bool:
    """Whether a library's class or function made what has this name, which may not give nothing: `Adam()`."""
    last = name.removesuffix("()").rpartition(".")[2]
    return last[:1].isupper() or last in ("device", "open")


def contains(owner: Any, item: Any) -> bool | None:
    """Whether something is in another, None where nobody can tell."""
    if isinstance(owner, Object):
        owner = owner.native
    if isinstance(owner, str) and isinstance(item, str):
        return item in owner if is_known(owner) and is_known(item) else None
    if isinstance(owner, dict) and is_known(item):
        if item in owner:
            return True
        return owner.holds(item) if hasattr(owner, "holds") else False
    if isinstance(item, _KINDS) and isinstance(owner, list | tuple):
        return (
            any(each is item for each in owner) if all(isinstance(each, _KINDS) for each in owner) else None
        )
    if isinstance(owner, list | tuple | set | frozenset | range) and is_known(item):
        if isinstance(owner, range):
            return item in owner if isinstance(item, int) else None
        if any(is_known(each) and each == item for each in owner):
            return True
        return False if all(map(is_known, owner)) else None
    return None


def chosen(entries: list[Any]) -> Any:
    """One of the entries of a table or list, by a key that nobody can tell."""
    if len(entries) == 1:
        return entries[0]
    is_called = all(isinstance(each, Object | Class | Function | BoundCall | Native) for each in entries)
    return OneOf(entries) if is_called and 0 < len(entries) <= MOST_CHOICES else Symbol()


def joined(one: Any, other: Any) -> Any:
    """What a value is that is one of two: the same, or the one that is there, or a guess of the first."""
    if one is other or (is_known(one) and is_known(other) and type(one) is type(other) and one == other):
        return one
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, str | PurePosixPath) and isinstance(other, type(one)):
        return type(one)(commonprefix((str(one), str(other))) + OPEN)
    if isinstance(one, Object | Class | Function | BoundCall | Native | DottedEntries):
        return one
    if isinstance(other, Object | Class | Function | BoundCall | Native | DottedEntries):
        return other
    # What was read of a checkpoint is what was saved there.
    for each in sorted((one, other), key=lambda each: "torch.load(" in getattr(each, "name", "")):
        if isinstance(each, Symbol) and each.name[:1] not in ("", "?"):
            return each
    own = any(isinstance(each, Symbol) and each.is_own for each in (one, other))
    return Symbol(is_own=own)


def format_value(value: object, form: str = "") -> str:
    """A value in a text, with its format where this is a short one."""
    if not form or not isinstance(value, SCALARS) or not is_known(value):
        return text_of(value)
    widths = [each for each in "".join(c if c.isdigit() else " " for c in form).split() if len(each) > 2]
    if widths or not is_known(form):
        return OPEN
    try:
        return format(value, form)
    except (TypeError, ValueError):
        return OPEN


def format_old(text: str, given: object) -> object:
    """A text with values by `%`."""
    values = given if isinstance(given, tuple) else (given,)
    parts, number, place = [], 0, 0
    while (found := text.find("%", place)) >= 0:
        parts.append(text[place:found])
        end = found + 1
        while end < len(text) and text[end] in "0123456789.-+ #()" and end - found < 6:
            end += 1
        if end >= len(text) or text[end] == "(" or isinstance(given, dict):
            return Symbol()
        if text[end] == "%":
            parts.append("%")
        else:
            form, value = text[found : end + 1], values[number] if number < len(values) else Symbol()
            number += 1
            try:
                parts.append(form % value if isinstance(value, _NUMBERS) else text_of(value))
            except (TypeError, ValueError):
                parts.append(OPEN)
        place = end + 1
    return "".join([*parts, text[place:]])


def _parsed(text: object, call: ast.Call, mode: str) -> ast.AST | None:
    """The code of a text that `eval` or `exec` is given, as if it stood at their call; None of what is not
    known, too long or no code."""
    if not isinstance(text, str) or not is_known(text) or len(text) > _LONGEST_TEXT:
        return None
    try:
        tree = ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    stand_at(call, tree)
    return tree
