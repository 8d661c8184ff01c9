"""Where a name gets its value: the definitions that reach a use, and which statements exclude each other.

A definition reaches a use where it stands before it in the same scope, or behind it in a loop around both,
and no later one that surely runs replaces it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from launcher.program.index import (
    Binding,
    BindingKind,
    Scope,
    attribute_of_getattr,
    dotted_name,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.values import Constant, Value

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.ExceptHandler)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_HOLDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Arm = tuple[ast.AST, str]
"""A branching statement and the part of it in which something stands."""


def reaching_definitions(holder: Scope, use: ast.Name, value: Callable[[ast.expr], Value]) -> list[Binding]:
    """The bindings of a name that may hold where it is used, by the tests around them that are known.

    In the scope that binds it: those before the use (and in a loop around both, behind it), of which the last
    that surely runs hides what is before. Seen from another function: all.
    """
    bindings = holder.bindings[use.id]
    if len(bindings) == 1:
        return bindings
    if _outside_comprehensions(scope_of(use)) is not holder:
        if not _is_bound_in_branches(holder, use.id):
            return bindings
        known = ((each, branch_arms(each.node)) for each in bindings)
        return [each for each, its in known if not its or _is_open(each, its, value) is not None] or bindings
    place = use.lineno, use.col_offset
    return last_that_surely_run(bindings, place, branch_arms(use), value) or bindings


def _is_bound_in_branches(holder: Scope, name: str) -> bool:
    """Whether a name is bound in a part of a branching statement: of what a module defines, most is not."""
    if name not in holder.in_branches:
        holder.in_branches[name] = any(branch_arms(each.node) for each in holder.bindings[name])
    return holder.in_branches[name]


def last_that_surely_run(
    bindings: Sequence[Binding],
    place: tuple[float, float],
    arms: frozenset[Arm],
    value: Callable[[ast.expr], Value] | None = None,
) -> list[Binding]:
    """Those of some bindings of one function that may hold in a place of it, which stands in these arms: the
    last one that surely runs before, and what may run after that."""
    found: list[Binding] = []
    for each in bindings:
        its_arms = branch_arms(each.node)
        if _exclude_each_other(its_arms, arms):
            continue
        if not its_arms <= arms and value is not None:
            still_open = _is_open(each, its_arms - arms, value)
            if still_open is None:
                continue
            its_arms = (its_arms & arms) | still_open
        if _end_of_binding(each) > place:
            if _share_a_loop(its_arms, arms):
                found.append(each)
        elif its_arms <= arms and each.kind is not BindingKind.CHANGED:
            found = [each]
        else:
            found.append(each)
    return found


def _is_open(
    binding: Binding, arms: frozenset[Arm], value: Callable[[ast.expr], Value]
) -> frozenset[Arm] | None:
    """Those of some arms of which nobody knows whether they are taken; None where one surely is not.

    A test that asks for what is bound in its own arm, `if config is None: config = load()`, tells nothing.
    """
    found: set[Arm] = set()
    for branch, part in arms:
        taken = _is_taken(branch, part, binding, value)
        if taken is False:
            return None
        if taken is None:
            found.add((branch, part))
    return frozenset(found)


def _is_taken(
    branch: ast.AST, part: str, binding: Binding, value: Callable[[ast.expr], Value]
) -> bool | None:
    if isinstance(branch, ast.If):
        test = value(branch.test)
        if not isinstance(test, Constant) or _asks_for(branch.test, binding):
            return None
        return bool(test.value) is (part == "body")
    if isinstance(branch, ast.Match) and part.startswith("cases "):
        subject = value(branch.subject)
        if isinstance(subject, Constant):
            fits = [_fits(each, subject, value) for each in branch.cases]
            number = int(part.removeprefix("cases "))
            return False if True in fits[:number] else None if None in fits[:number] else fits[number]
    return None


def _fits(case: ast.match_case, subject: Constant, value: Callable[[ast.expr], Value]) -> bool | None:
    """Whether a case surely is the one for a literal; None where that is open."""
    patterns = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
    if case.guard is not None:
        return None
    found: list[bool | None] = []
    for each in patterns:
        match each:
            case ast.MatchValue(value=written):
                known = value(written)
                found.append(known == subject if isinstance(known, Constant) else None)
            case ast.MatchSingleton(value=single):
                found.append(single is subject.value)
            case ast.MatchAs(pattern=None):
                found.append(True)
            case _:
                found.append(None)
    return True if True in found else None if None in found else False


def _asks_for(test: ast.expr, binding: Binding) -> bool:
    last = binding.name.rpartition(".")[2]
    return any(last_name(each) == last for each in walk(test))


def without_placeholders(bindings: Sequence[Binding], values: Sequence[Value]) -> list[Value]:
    """The values of bindings without the None that others replace: which stands for a module, class or object
    as long as nobody has set it, or where a test asks for it before: `if limit is None: limit = 300`."""
    if len(bindings) < 2 or Constant(None) not in values:
        return [*values]
    filled = any(map(fills_in, bindings))
    kept = [
        value
        for binding, value in zip(bindings, values, strict=True)
        if value != Constant(None) or not (filled or _is_placeholder(binding))
    ]
    return kept or [*values]


def _is_placeholder(binding: Binding) -> bool:
    written = isinstance(binding.value, ast.Constant) and binding.kind is BindingKind.ASSIGNED
    shared = isinstance(binding.node, ast.Attribute) or scope_of(binding.node).function is None
    return written and shared and not branch_arms(binding.node)


def fills_in(binding: Binding) -> bool:
    """Whether a binding runs only where its name is None."""
    for branch, part in branch_arms(binding.node):
        test = getattr(branch, "test", None)
        asked: ast.expr | None = None
        match test:
            case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
                asked = left
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                asked = inner
        if asked is not None and part == "body" and dotted_name(asked) == binding.name:
            return True
    # The test of a loop is no arm.
    outer = parent_of(binding.node)
    return (
        isinstance(outer, ast.While) and _asks_for(outer.test, binding) and "None" in ast.unparse(outer.test)
    )


def branch_arms(node: ast.AST) -> frozenset[Arm]:
    """The parts of branching statements of its function in which a node stands."""
    known = file_of(node).branch_arms
    found = known.get(node)
    if found is not None:
        return found
    within: list[tuple[ast.AST, ast.AST]] = []
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
            always = ("test", "iter", "finalbody", "body" if isinstance(outer, ast.Try) else "")
            if part not in always:
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
            for number, each in enumerate(value if isinstance(value, list) else (value,)):
                if isinstance(each, ast.AST):
                    known[each] = f"{name} {number}" if isinstance(each, ast.match_case) else name
    if inner not in known:  # It was made for an expression of the branch, and has its place.
        known[inner] = next(
            known[each] for each in children_of(branch) if _place_of(each) == _place_of(inner)
        )
    return known[inner]


def _place_of(node: ast.AST) -> tuple[object, ...]:
    bounds = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, name, None) for name in bounds)


def are_exclusive(one: ast.AST, other: ast.AST) -> bool:
    """Whether two places stand in different arms of one `if` or `match`, of which one alone runs."""
    return _exclude_each_other(branch_arms(one), branch_arms(other))


def _exclude_each_other(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
    if one <= other or other <= one:
        return False
    first = {node: part for node, part in one if isinstance(node, ast.If | ast.Match)}
    return any(node in first and first[node] != part for node, part in other)


def _share_a_loop(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
    return any(isinstance(node, _LOOPS) for node, _ in one & other)


def _outside_comprehensions(scope: Scope) -> Scope:
    """The scope around comprehensions, whose code runs where it stands."""
    kinds = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    while isinstance(scope.node, kinds) and scope.parent:
        scope = scope.parent
    return scope


def _end_of_binding(binding: Binding) -> tuple[int, int]:
    """Where the binding's value is complete, so that `x = f(x)` uses the x before."""
    node: ast.AST = binding.node
    if binding.kind in (BindingKind.LOOPED, BindingKind.ENTERED):
        node = binding.value or node.__dict__.get("iter") or node.__dict__.get("context_expr", node)
    elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.body[0].lineno, node.body[0].col_offset
    elif not hasattr(node, "end_lineno"):
        parent = parent_of(node)
        node = node if parent is None else parent
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0


def returns_taken(function: ast.AST, value: Callable[[ast.expr], Value]) -> list[ast.Return]:
    """The `return` statements that a call may come to, by what its tests are known to be."""
    returns = file_of(function).returns_of.get(function, [])
    return [each for each in returns if len(returns) == 1 or not _is_passed_by(each, function, value)]


def _is_passed_by(node: ast.stmt, function: ast.AST, value: Callable[[ast.expr], Value]) -> bool:
    """Whether a call surely does not come to a statement: by a test around it, or one that returns before."""
    inner: ast.AST = node
    while inner is not function and (outer := parent_of(inner)) is not None:
        if isinstance(outer, ast.If) and inner is not outer.test:
            test = value(outer.test)
            if isinstance(test, Constant) and bool(test.value) is not (_part_of(outer, inner) == "body"):
                return True
        block = getattr(outer, _part_of(outer, inner), None)
        for before in block[: block.index(inner)] if isinstance(block, list) else ():
            if isinstance(before, ast.If) and isinstance(before.body[-1], ast.Return):
                test = value(before.test)
                if isinstance(test, Constant) and test.value:
                    return True
        inner = outer
    return False


def unwrapped(node: ast.expr) -> ast.Attribute | None:
    """`model.module` of `getattr(model, "module", model)` and of `model.module if is_wrapped else model`, as
    both are that where the model is wrapped. None of anything else."""
    inner: ast.Attribute | None
    match node:
        case ast.IfExp(body=ast.Attribute(attr="module") as inner, orelse=other):
            pass
        case ast.IfExp(body=other, orelse=ast.Attribute(attr="module") as inner):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="module"), other]):
            inner = attribute_of_getattr(node)
        case _:
            return None
    return inner if inner is not None and ast.dump(inner.value) == ast.dump(other) else None
