"""Where a sampler goes: through variables, results and attributes, to what takes it, or to nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.scripts.program import Program
from launcher.scripts.scopes import Binding, FunctionNode, file_of, parent_of, scope_of

_LEAVES = frozenset({"set_epoch", "state_dict", "load_state_dict", "num_samples", "total_size"})
"""What is asked of a sampler without drawing from it."""

_DEEPEST = 5
"""So many variables and results behind each other; what goes further may be used."""


def goes_nowhere(program: Program, node: ast.expr, deepest: int = _DEEPEST) -> bool:
    """Whether nothing ever draws from the sampler that an expression is: it is given to no call, looped over
    nowhere, and kept nowhere where nobody sees."""
    parent = parent_of(node)
    if deepest == 0 or parent is None:
        return False
    if isinstance(parent, ast.IfExp) and node is not parent.test:
        return goes_nowhere(program, parent, deepest - 1)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return _kept_unused(program, parent.targets[0], deepest - 1)
    if isinstance(parent, ast.Return):
        return _returned_unused(program, parent, None, deepest - 1)
    if isinstance(parent, ast.Tuple) and isinstance(outer := parent_of(parent), ast.Return):
        return _returned_unused(program, outer, parent.elts.index(node), deepest - 1)
    return is_only_asked(node)


def is_only_asked(use: ast.expr) -> bool:
    """Whether a use tells or asks something of the sampler, and no more."""
    parent = parent_of(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _LEAVES
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        return parent.func.id in ("len", "isinstance", "hasattr") and use is not parent.func
    if isinstance(parent, ast.Compare):
        return True
    return isinstance(parent, ast.If | ast.IfExp) and parent.test is use


def _kept_unused(program: Program, target: ast.expr, deepest: int) -> bool:
    if isinstance(target, ast.Name):
        statement = parent_of(target)
        while not isinstance(statement, ast.stmt) and statement is not None:
            statement = parent_of(statement)
        bindings = scope_of(target).bindings.get(target.id, [])
        binding = next((each for each in bindings if each.node is statement), None)
        uses = None if binding is None else list(uses_of(program, binding))
    elif isinstance(target, ast.Attribute):
        read = [each for file in program.files for each in file.attributes.get(target.attr, ())]
        uses = [each for each in read if isinstance(getattr(each, "ctx", None), ast.Load)]
    else:
        uses = None
    return uses is not None and all(goes_nowhere(program, each, deepest) for each in uses)


def _returned_unused(program: Program, statement: ast.Return, item: int | None, deepest: int) -> bool:
    """Whether no call of the function that gives a sampler back, alone or with other results, uses it."""
    function = scope_of(statement).function
    sites = None
    if function is not None and isinstance(function.node, FunctionNode):
        sites = program.evaluation.callers.of(function.node)
    if not sites:
        return False
    for site in sites:
        if item is None:
            if not goes_nowhere(program, site.call, deepest):
                return False
            continue
        taken = parent_of(site.call)
        if not isinstance(taken, ast.Assign) or len(taken.targets) != 1:
            return False
        (target,) = taken.targets
        if not isinstance(target, ast.Tuple) or any(isinstance(each, ast.Starred) for each in target.elts):
            return False
        if item >= len(target.elts) or not _kept_unused(program, target.elts[item], deepest):
            return False
    return True


def uses_of(program: Program, binding: Binding) -> Iterator[ast.expr]:
    """Where a variable is read: also by other files where it is a module's."""
    file, scope = file_of(binding.node), scope_of(binding.node)
    for use in file.names.get(binding.name, ()):
        if scope_of(use).holder_of(binding.name) is scope:
            yield use
    if isinstance(scope.node, ast.Module | ast.ClassDef):
        for other in program.files:
            yield from other.attributes.get(binding.name, ())
            if other is not file:
                yield from other.names.get(binding.name, ())
