"""A notebook as one program."""

from __future__ import annotations

import json

import pytest

from launcher.drafts.job_draft import SourceLine
from launcher.drafts.sdk.notebook import NotANotebookError, read_notebook


def notebook(*cells: str | list[str]) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": each} for each in cells]}).encode()


def test_commands_become_statements_that_say_nothing() -> None:
    made = read_notebook(
        notebook("!pip install sagemaker \\\n  boto3\nx = 1", ["%%bash\n", "echo"], "y = !ls\nz = 7 % 2\nx?")
    )
    assert made.text == "pass\n\nx = 1\n\n\ny = ...\nz = 7 % 2\npass\n"


def test_a_line_is_told_by_its_cell() -> None:
    made = read_notebook(notebook("a = 1\nb = 2", "c = 3"))
    assert [made.place(line) for line in (1, 2, 3)] == [SourceLine(1, 1), SourceLine(2, 1), SourceLine(1, 2)]


def test_a_cell_that_is_no_python_is_left_out() -> None:
    assert read_notebook(notebook("if:\n", "a = 1")).text == "\na = 1\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 1}', "[" * 100_000])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(NotANotebookError):
        read_notebook(text.encode())
