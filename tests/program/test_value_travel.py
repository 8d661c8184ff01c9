"""Values are followed from where they are set to where they matter, in whatever form they travel.

Each way of `cases/ways.test` is asked twice, with <value> and <other> exchanged, so that nothing is
guessed: what is found follows from the program. A `[way ...]` is asked with a number and with a rank, an
`[option ...]`, which a run may change, with a number in a run of the defaults, and a `[text ...]` holds its
own texts.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from launcher.program.program import Program
from launcher.program.values import RankKind, RankValue
from launcher.rules.script.default_values import default_constant
from tests.case_files import Part, read_parts
from tests.program.conftest import CASES, ReadProgram

_HEADING = re.compile(r"\[(way|option|text|file) (.+)\]")
_RANKS = {kind: f'int(os.environ["{name}"])' for kind, name in ((1, "LOCAL_RANK"), (2, "RANK"))}


def _ways() -> list[list[Part]]:
    found: list[list[Part]] = []
    for part in read_parts(CASES / "ways.test", _HEADING):
        if part.kind == "file":
            found[-1].append(part)
        else:
            found.append([part])
    return found


def _filled(part: Part, value: str, other: str) -> str:
    text = "\n".join(part.lines).strip("\n") + "\n"
    filled = text.replace("<value>", value).replace("<other>", other)
    return filled if part.kind == "file" else f"import os\nimport torch\n{filled}"


def _told(read: Program) -> object:
    (call,) = [each for file in read.files for each in file.calls_of.get("look", ())]
    value = read.value(call.args[0])
    if isinstance(value, RankValue):
        return value.kind
    found = default_constant(read, call.args[0])
    return None if found is None else found.value


@pytest.mark.parametrize("kind", ["way", "option", "text"])
def test_a_value_is_followed_on_its_way(kind: str, program: ReadProgram, tmp_path: Path) -> None:
    asked = {
        "way": [("32", "4", 32), ("4", "32", 4), (_RANKS[1], _RANKS[2], RankKind.LOCAL)],
        "option": [("32", "4", 32), ("4", "32", 4)],
        "text": [("", "", "TRACE")],
    }[kind]
    wrong: list[str] = []
    for way, *files in (each for each in _ways() if each[0].kind == kind):
        for value, other, expected in asked:
            others = {each.name: _filled(each, value, other) for each in files}
            told = _told(program(_filled(way, value, other), **others))
            for name in others:
                (tmp_path / name).unlink()
            if told != expected:
                wrong.append(f"ways.test:{way.number}: {way.name}: {told!r}, not {expected!r}")
    assert wrong == [], textwrap.indent("\n".join(wrong), "  ")
