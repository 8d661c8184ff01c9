"""A notebook as one Python program: the lines of its code cells, in their order.

Commands of IPython (`%`, `!`, `?`) become statements that say nothing, and so does a cell that is no Python.
Format: nbformat 4, code cells with `source` as a text or a list of lines.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right

from launcher.drafts.job_draft import SourceLine
from launcher.frozen import frozen

_COMMAND = re.compile(r"(?P<margin>\s*+)(?P<target>[\w.,][\w.,\s]*+=\s*+)?(?:[%!]|\?)")
_ASKS = re.compile(r"\s*[\w.]+\?{1,2}\s*$")
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture")
"""Magics of a whole cell whose rest is Python still."""


class NotANotebookError(ValueError):
    """The text is no notebook: why."""


@frozen
class Notebook:
    """Its program, and with which line of that each code cell begins, by the cells' numbers from 1."""

    text: str
    begins: tuple[tuple[int, int], ...]

    def place(self, line: int) -> SourceLine:
        """Where a line of the program stands."""
        index = bisect_right(self.begins, (line, 1 << 30)) - 1
        begin, cell = self.begins[max(index, 0)]
        return SourceLine(line - begin + 1, cell)


def read_notebook(data: bytes) -> Notebook:
    """The program of a notebook. Raises NotANotebookError."""
    try:
        cells = json.loads(data)["cells"]
        sources = [
            (number, each["source"])
            for number, each in enumerate(cells, start=1)
            if each.get("cell_type") == "code"
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise NotANotebookError("it holds no cells of a notebook") from error
    lines: list[str] = []
    begins: list[tuple[int, int]] = []
    for number, source in sources:
        begins.append((len(lines) + 1, number))
        lines += _python_of("".join(source) if isinstance(source, list) else str(source))
    return Notebook("\n".join(lines) + "\n", tuple(begins) or ((1, 1),))


def _python_of(source: str) -> list[str]:
    lines = source.splitlines() or [""]
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and not first.startswith(_PYTHON_CELLS):
        return [""] * len(lines)
    made: list[str] = []
    goes_on = False
    for line in lines:
        found = _COMMAND.match(line)
        if goes_on or (found is not None and _is_no_python(line)) or _ASKS.match(line):
            margin = found["margin"] if found else ""
            target = (found["target"] or "").strip() if found and not goes_on else ""
            # What a command gives is not known: an ellipsis is no value of a job file.
            made.append(f"{margin}{target} ..." if target else f"{margin}pass" if not goes_on else "")
            goes_on = line.rstrip().endswith("\\")
        else:
            made.append(line)
    try:
        ast.parse("\n".join(made))
    except (SyntaxError, ValueError):
        return [""] * len(lines)
    return made


def _is_no_python(line: str) -> bool:
    """Whether a line that looks like a command is none of Python's: `x = a % b` goes on with an operator."""
    try:
        ast.parse(line.strip())
    except (SyntaxError, ValueError):
        return True
    return False
