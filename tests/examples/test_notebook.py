"""The example notebook runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

KERNEL = """
import ast, json, sys

shown, names = [], {}
for cell in json.load(sys.stdin)["cells"]:
    if cell["cell_type"] != "code":
        continue
    *statements, last = ast.parse("".join(cell["source"])).body
    ends_in_value = isinstance(last, ast.Expr)
    exec(compile(ast.Module(statements if ends_in_value else [*statements, last], []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if ends_in_value else None
    shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
json.dump(shown, sys.stdout)
"""
"""What a notebook's kernel does with cells of plain Python: run each, and show the value of its last line."""


@pytest.mark.exhaustive
def test_the_notebook_runs_and_shows_a_job_that_succeeds_and_one_that_fails(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=(ROOT / "examples" / "notebook.ipynb").read_text("utf-8"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    _, _, findings, resources, launched, succeeded, lines, failed = json.loads(run.stdout)
    assert findings == "<div>nothing is to be said against it</div>"
    assert "'InstanceCount': 4" in resources
    assert "parabola-" in launched
    assert succeeded == "True"
    assert lines.count("\n") == 10  # step=1 and step=10 to step=19, a line each
    assert ">Failed<" in failed
    assert "CODE001" in failed
    assert "ArithmeticError: the loss is" in failed


def test_the_notebook_keeps_no_results_of_anybody() -> None:
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
