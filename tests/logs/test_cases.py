"""The files of cases: what can stand in one, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_files import BadCase
from tests.logs.cases import LogCase, log_cases, read_cases, written

CASE = LogCase(
    "one",
    "# a comment of the log\n[case of bad luck]\n\\\\server\\share\n\n  indented\ttext \u2028 \n",
    "https://example.com/1",
    codes=("MEM001", "CODE001"),
    also=("MEM002",),
    first_failing="rank 3",
    retry="never",
    failure_reason=True,
    modelled=True,
    why="[case x] # y: what is known of it",
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "MEM001.test"
    bare = LogCase("other", "a line\n", "https://example.com/2", codes=("MEM001",))
    file.write_text(written([bare, CASE]), "utf-8")
    assert read_cases(file) == [CASE, bare]


def test_the_files_are_written_as_the_reducer_writes_them() -> None:
    for file in sorted(Path(__file__).with_name("cases").glob("*.test")):
        assert file.read_text("utf-8") == written(read_cases(file)), file.name


def test_every_log_is_read() -> None:
    assert len(log_cases()) >= 1300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a line\n[case one]\n", "HEALTHY.test:1: a file begins with"),
        ("[case one]\n# source: x\n", "HEALTHY.test:1: case one has no lines"),
        ("[case one]\na line\n", "HEALTHY.test:1: case one has no `# source"),
        ("[case one]\n# source: x\n# colour: red\na line\n", "HEALTHY.test:3: not a field"),
        ("[case one]\n# source: x\n# source: y\na line\n", "HEALTHY.test:3: not a field"),
        ("[case one]\n# source: x\n#why\na line\n", "HEALTHY.test:3: not a field"),
        ("[case one]\n# source: x\n# modelled: no\na line\n", "HEALTHY.test:3: modelled is `yes`"),
        ("[case one]\n# source: x\n# codes: MEM001\na line\n", "belongs into MEM001.test"),
        ("[case one]\n# source: x\na\n\n[case one]\n# source: x\na\n", "two cases one"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "HEALTHY.test").write_text(text, "utf-8")
    with pytest.raises(BadCase, match=said.replace("[", r"\[")):
        log_cases(tmp_path)
