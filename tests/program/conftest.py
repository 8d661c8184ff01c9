"""Programs from texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from launcher.program.program import Program, read_program
from launcher.program.values import Value
from tests.case_files import read_parts

CASES = Path(__file__).with_name("cases")
HEADING = re.compile(r"\[(program) (.+)\]")
ReadProgram = Callable[..., Program]
ValueOf = Callable[..., Value]


def wrong_answers(name: str, answer: Callable[[str], str]) -> list[str]:
    """Where the answer to a program of a file of cases is not how the one begins that its heading has."""
    told = [
        (part, answer("\n".join(part.lines).rstrip("\n") + "\n"))
        for part in read_parts(CASES / name, HEADING)
    ]
    return [
        f"{name}:{part.number}: {said}, not {part.name}"
        for part, said in told
        if not said.startswith(part.name)
    ]


@pytest.fixture
def program(tmp_path: Path) -> ReadProgram:
    """Write files and read the program that the first starts: `program(text, **{"helpers.py": text})`."""

    def read(text: str, **others: str) -> Program:
        (tmp_path / "train.py").write_text(dedent(text), "utf-8")
        for name, content in others.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(content), "utf-8")
        found = read_program(tmp_path / "train.py")
        assert isinstance(found, Program), found
        return found

    return read


@pytest.fixture
def value_of(program: ReadProgram) -> ValueOf:
    """What the argument of the call `look(...)` is."""

    def value(text: str, **others: str) -> Value:
        read = program(text, **others)
        (call,) = [each for file in read.files for each in file.calls_of.get("look", ())]
        assert isinstance(call, ast.Call)
        return read.value(call.args[0])

    return value
