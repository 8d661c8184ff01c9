"""What is found in a program is found in the same program in another form, and nothing else is.

The programs are blind examples, one of each failure mode and one that is right; the forms are in `forms.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.failure_modes.model import Severity, Stage
from tests.blind.cases import Example, examples, judge_script
from tests.exhaustive import share_and_all
from tests.program.forms import FORMS, in_form


def _programs() -> list[Example]:
    found = {(each.code, each.expected): each for each in examples("first", Stage.SCRIPT)}
    return [*found.values()]


def _told(case: Example, folder: Path) -> set[str]:
    folder.mkdir()
    findings = [each for each in judge_script(case, folder) if not each.ignored]
    return {each.code for each in findings if each.severity is not Severity.INFO}


@pytest.mark.parametrize("programs", share_and_all(_programs(), lambda each: each.name))
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_form_changes_nothing(
    form: Callable[[ast.Module], None], programs: list[Example], tmp_path: Path
) -> None:
    wrong: list[str] = []
    for number, case in enumerate(programs):
        plain = _told(case, tmp_path / f"{number}")
        other = _told(replace(case, files=in_form(case.files, form)), tmp_path / f"{number} in form")
        if plain != other:
            wrong.append(f"{case.place}: {case.name}: {sorted(plain)} became {sorted(other)}")
    assert not wrong, "\n".join(wrong)
