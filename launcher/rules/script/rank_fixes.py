"""Fixes that change what a script does: which ranks run a statement, and that the group is destroyed.

They are made where somebody asks for unsafe ones alone, as what the author meant may be something else.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from launcher.failure_modes.model import Fix
from launcher.scripts.edits import Places, behind_its_test, below, statement_after
from launcher.scripts.program import Program
from launcher.scripts.scopes import BindingKind, parent_of, scope_of, statement_of

_STARTERS = ("spawn", "start_processes", "Process", "notebook_launcher")
"""Calls by which other processes than this one make the group."""


def on_rank_zero(call: ast.Call) -> Fix | None:
    """A call that is a statement of its own, on rank 0 alone, where the file names torch.distributed."""
    statement = parent_of(call)
    dist = _torch_distributed(call)
    if not isinstance(statement, ast.Expr) or dist is None:
        return None
    edits = below(statement, f"if {dist}.get_rank() == 0:")
    return None if edits is None else Fix(False, edits)


def on_every_rank(call: ast.Call) -> Fix | None:
    """A call that is the last statement under a test, after it."""
    statement = parent_of(call)
    edit = behind_its_test(statement) if isinstance(statement, ast.Expr) else None
    return None if edit is None else Fix(False, (edit,))


def destroyed_at_the_end(program: Program, group: ast.Call) -> Fix | None:
    """The group's end as the last lines under the main guard, in a program of one process a rank."""
    if any(name in file.calls_of for file in program.files for name in _STARTERS):
        return None
    guard = program.entry.tree.body[-1]
    dist = _torch_distributed(guard)
    if not _is_main_guard(guard) or dist is None:
        return None
    last = guard.body[-1]
    if not isinstance(last, ast.Expr) or statement_of(group) is last:
        return None
    step = "\t" if Places(program.entry).indentation(last).startswith("\t") else "    "
    edit = statement_after(last, f"if {dist}.is_initialized():", f"{step}{dist}.destroy_process_group()")
    return None if edit is None else Fix(False, (edit,))


def _is_main_guard(statement: ast.stmt) -> TypeGuard[ast.If]:
    return (
        isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test) and not statement.orelse
    )


def _torch_distributed(place: ast.AST) -> str | None:
    """How torch.distributed is called in a place, by an import at the head of the file."""
    scope = scope_of(place)
    names = {}
    for each in scope.file.imports:
        if each.kind is BindingKind.IMPORTED and scope.holder_of(each.name) is scope.file.module:
            names[each.module] = each.name
    if "torch.distributed" in names:
        return names["torch.distributed"]
    return f"{names['torch']}.distributed" if "torch" in names else None
