"""The calls of what may be an object, or a function under another name than its own, by how it is written."""

from __future__ import annotations

import ast
from collections.abc import Collection

from launcher.program.index import Binding, BindingKind, ProgramFiles, file_of, last_name, scope_of


def calls_of_values(files: ProgramFiles) -> list[ast.Call]:
    """The calls of a name or an attribute that is given a value somewhere, or of neither.

    Most calls are of functions, classes and methods by their own names, and need no evaluation.
    """
    calls = [call for file in files.files for call in file.calls]
    held = {each.arg for call in calls for each in call.keywords if each.arg is not None}
    for file in files.files:
        fields = (last_name(each.target) for each in file.nodes(ast.AnnAssign))
        held.update(file.set_attributes, file.set_items, filter(None, fields))
        for scope in file.scopes.values():
            if isinstance(scope.node, ast.Module | ast.ClassDef):
                bound = scope.bindings.items()
                held.update(name for name, bindings in bound if any(map(_is_of_value, bindings)))
    known = files.known_as(held)
    return [each for each in calls if _may_be_of_value(each.func, known)]


def _may_be_of_value(called: ast.expr, held: Collection[str]) -> bool:
    """Whether what is called may have got its value from an assignment: a name from one in its own scope, an
    attribute or what is imported from one of that name. `held` are the names of attributes, and in modules.
    """
    if not isinstance(called, ast.Name):
        return (name := last_name(called)) is None or name in held
    holder = scope_of(called).holder_of(called.id)
    if holder is None:
        return bool(file_of(called).stars) and called.id in held
    kinds = {each.kind for each in holder.bindings[called.id]} - {BindingKind.DEFINED}
    return bool(kinds - {BindingKind.IMPORTED}) or (bool(kinds) and called.id in held)


def _is_of_value(binding: Binding) -> bool:
    """Whether a binding gives its name a value, as a property does, unlike other definitions and imports."""
    if binding.kind is BindingKind.DEFINED:
        return bool(getattr(binding.node, "decorator_list", ()))
    return binding.kind is not BindingKind.IMPORTED
