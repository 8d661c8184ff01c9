"""Source without docstrings does the same, line by line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from launcher.source.prose import without_docstrings

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted((ROOT / "slipway").rglob("*.py"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""One line."""\nx = 1\n', '""\nx = 1\n'),
        ('def f():\n    """Two\n    lines."""\n    return 1\n', 'def f():\n    ""\n\n    return 1\n'),
        ('def f(): """All of it."""\n', 'def f(): ""\n'),
        ('"""é"""; x = "é"  # why\n', '""; x = "é"  # why\n'),
        ('x = """kept\ntext"""\n', 'x = """kept\ntext"""\n'),
        ('f("kept")\n', 'f("kept")\n'),
        ('X = 1\n"""What X is,\nin full."""\n\nY = 2\n', 'X = 1\n""\n\n\nY = 2\n'),
        (
            'try:\n  "a"\nexcept E:\n  "b"\nelse:\n  "c"\nfinally:\n  "d"\nmatch e:\n  case f:\n    "g"\n',
            'try:\n  ""\nexcept E:\n  ""\nelse:\n  ""\nfinally:\n  ""\nmatch e:\n  case f:\n    ""\n',
        ),
        (
            'class A:\n  async def b(c):\n    "d"\n    with e: "f"\n',
            'class A:\n  async def b(c):\n    ""\n    with e: ""\n',
        ),
    ],
)
def test_texts_that_are_statements_go_and_lines_stay(source: str, expected: str) -> None:
    assert without_docstrings(source) == expected
    assert source.count("\n") == expected.count("\n")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_the_boot_keeps_its_statements_at_their_lines(file: Path) -> None:
    source = file.read_text("utf-8")
    assert statements(without_docstrings(source)) == statements(source)


def statements(source: str) -> list[tuple[int, str]]:
    return [
        (node.lineno, ast.dump(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
