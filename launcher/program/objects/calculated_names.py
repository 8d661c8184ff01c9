"""Names of attributes that a program calculates, as far as they are written in it."""

from __future__ import annotations

import ast

from launcher.program.index import ProgramFiles


def beginnings_of_calculated_names(files: ProgramFiles) -> tuple[str, ...]:
    """What the names begin with by which `getattr` reads: `on_` of `getattr(hook, f"on_{event}")`."""
    asked = [each for file in files.files for each in file.calls_of.get("getattr", ())]
    names = [each.args[1] for each in asked if len(each.args) > 1]
    firsts = [each.values[0] for each in names if isinstance(each, ast.JoinedStr) and each.values]
    firsts += [each.left for each in names if isinstance(each, ast.BinOp)]
    texts = [each.value for each in firsts if isinstance(each, ast.Constant)]
    return tuple(each for each in texts if isinstance(each, str) and each)
