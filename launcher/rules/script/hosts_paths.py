"""Paths that each host has for itself: below /tmp."""

from __future__ import annotations

import ast

from launcher.rules.script.declared_options import default_of_option
from launcher.scripts.program import Program
from launcher.scripts.scopes import function_of_parameter

_OWN = ("/tmp/", "/dev/shm/")
_MOST = 100
"""So many expressions are looked at for one path."""


def is_a_hosts_own(program: Program, path: ast.expr) -> bool:
    """Whether a text that begins below /tmp goes into a path, also as the default of an option."""
    waiting: list[ast.AST] = [path]
    seen = set[ast.AST]()
    while waiting and len(seen) < _MOST:
        for node in ast.walk(waiting.pop()):
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.Constant) and str(node.value).startswith(_OWN):
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                option = default_of_option(program, node)
                if option is not None and str(option.value).startswith(_OWN):
                    return True
                for binding in program.evaluation.sources(node):
                    waiting += [binding.value] if binding.value is not None else _given(program, binding.node)
    return False


def _given(program: Program, parameter: ast.AST) -> list[ast.expr]:
    """What calls give for a parameter."""
    function = function_of_parameter(parameter)
    if function is None or not isinstance(parameter, ast.arg):
        return []
    sites = program.evaluation.callers.of(function) or ()
    given = [site.arguments.get(parameter.arg) for site in sites if site.arguments is not None]
    return [each for each in given if each is not None]
