"""A lint: what is judged, what is accepted, and what is told of comments and configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.failure_modes.model import Finding, Refusal, Severity
from launcher.program import program as reading
from launcher.program.index import FileIndex, Unread
from launcher.program.program import Program
from launcher.rules.script import check
from launcher.session.lint_scripts import FEW_FILES, Lint, Selection, lint, project_root
from tests.program import trial_rules

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
ENTRY = 'import torch.distributed as dist\nif __name__ == "__main__":\n    dist.barrier()\n'


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial_rules.use(monkeypatch)


def write(files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


def told(result: Lint) -> list[str]:
    return [f"{each.location} {each.code}{' ignored' if each.ignored else ''}" for each in result.findings]


def linted(*paths: str, **options: tuple[str, ...]) -> list[str]:
    return told(lint([Path(path) for path in paths], Selection(**options)))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_told_of_a_project(case: dict[str, Any]) -> None:
    write({name: text.replace("ENTRY", ENTRY.rstrip("\n")) for name, text in case["files"].items()})
    for run in case["runs"]:
        options = {name: tuple(run[name]) for name in ("select", "ignore") if name in run}
        assert linted(*run["paths"], **options) == run["told"]


def test_of_a_folder_the_scripts_that_start_distributed_training_are_judged() -> None:
    write(
        {
            "job/train.py": ENTRY,
            "job/tool.py": 'if __name__ == "__main__":\n    barrier()\n',
            "job/parts.py": "import torch.distributed\nbarrier()\n",
        }
    )
    result = lint([Path("job")])
    assert told(result) == ["job/train.py:3:5 DDP004"]
    assert (result.programs, result.files) == (1, 1)


def test_a_script_without_a_project_has_its_own_folder(tmp_path: Path) -> None:
    write({"alone/train.py": "a = 1\n"})
    assert project_root(Path("alone/train.py")) == Path("alone")
    write({"setup.py": ""})
    assert project_root(Path("alone/train.py")) == Path()
    assert project_root(tmp_path / "alone" / "train.py") == tmp_path


def test_a_comment_that_accepts_nothing_is_told() -> None:
    write({"train.py": "a = 1  # slipway: ignore[DDP004]\n# slipway: ignore-file[CODE003]\n"})
    (first, second) = lint([Path("train.py")]).findings
    assert (first.code, first.severity) == ("SPEC003", Severity.WARNING)
    assert first.message.startswith("DDP004 is not found here")
    assert second.message.startswith("CODE003 is not found in this file")


def test_an_unknown_code_in_a_comment_is_told_with_the_nearest() -> None:
    write({"train.py": "barrier()  # slipway: ignore[DDP0O4]\n"})
    first, unknown = lint([Path("train.py")]).findings
    assert not first.ignored
    assert (str(unknown.location), unknown.code) == ("train.py:1:30", "SPEC002")
    assert unknown.remedy == "Did you mean DDP004?"


def test_a_file_that_is_no_python_is_told_and_the_others_are_judged() -> None:
    write({"a.py": b"print 'a'\n", "b.py": b"a = '\x00'\n", "c.py": "barrier()\n"})
    result = lint([Path("a.py"), Path("b.py"), Path("c.py")])
    assert told(result) == ["a.py:1:1 CODE001", "b.py:1:1 CODE001", "c.py:1:1 DDP004"]
    assert result.findings[0].severity is Severity.ERROR
    # A helper that is none is a warning.
    write({"train.py": "try:\n    import old\nexcept SyntaxError:\n    pass\n", "old.py": "print 'a'\n"})
    (finding,) = lint([Path("train.py")]).findings
    assert (str(finding.location), finding.severity) == ("old.py:1:1", Severity.WARNING)


def test_many_scripts_are_judged_by_several_processes_with_the_same_result() -> None:
    write({f"{number:02}.py": f"import helper\nbarrier({number})\n" for number in range(FEW_FILES + 2)})
    write({"helper.py": "barrier()\n"})
    paths = [Path(f"{number:02}.py") for number in range(FEW_FILES + 2)]
    together = lint(paths, processes=2)
    assert told(together) == told(lint(paths, processes=1))
    assert len(together.findings) == FEW_FILES + 3
    assert (together.programs, together.files) == (FEW_FILES + 2, FEW_FILES + 3)


HOSTILE = {
    "null bytes": b"a = 1\x00\n",
    "no UTF-8": b"a = '\xff'\n",
    "an unknown encoding": b"# coding: klingon\na = 1\n",
    "a mark and another encoding": b"\xef\xbb\xbf# coding: latin-1\na = 1\n",
    "tabs and spaces": b"if a:\n\tb\n        c\n",
    "a notebook's magic": b"%matplotlib inline\nimport torch\n",
    "Python 2": b"exec 'a'\nprint >>f, a\n",
    "deep brackets": b"a = " + b"(" * 5000 + b")" * 5000 + b"\n",
    "a deep expression": b"a = " + b"-" * 20000 + b"1\n",
    "a cut file": b"def f(:\n    '''",
}


FINE = {
    "a mark": b"\xef\xbb\xbfbarrier()\n",
    "latin-1": b"# coding: latin-1\nbarrier('\xe9')\n",
    "carriage returns": b"a = 1\rbarrier()\r",
    "tabs": b"if a:\n\tbarrier()\n",
    "a form feed": b"\x0cbarrier()\n",
    "no last newline": b"barrier()",
    "a long sum": b"barrier()\na = " + b"1 + " * 500 + b"1\n",
    "many statements": b"barrier()\n" + b"a = 1\n" * 20000,
}


@pytest.mark.parametrize(("files", "code"), [(HOSTILE, "CODE001"), (FINE, "DDP004")])
def test_unusual_files_are_judged_and_hostile_ones_are_one_finding_each(
    files: dict[str, bytes], code: str
) -> None:
    found = {}
    for what, data in files.items():
        write({"train.py": data})
        found[what] = [each.split()[-1] for each in linted("train.py")]
    assert found == {what: [code] for what in files}


def test_blocks_nested_to_pythons_own_limit_are_judged() -> None:
    depth = 99
    text = "".join(" " * level + "if a:\n" for level in range(depth)) + " " * depth + "barrier()\n"
    write({"train.py": text})
    assert linted("train.py") == [f"train.py:{depth + 1}:{depth + 1} DDP004"]


def test_links_in_a_circle_end() -> None:
    write({"job/train.py": ENTRY})
    Path("job/self.py").symlink_to("self.py")
    Path("job/up").symlink_to("..", target_is_directory=True)
    assert linted("job") == ["job/train.py:3:5 DDP004"]
    assert linted("job/self.py") == ["job/self.py:1:1 CODE001"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_finding() -> None:
    write({"train.py": ENTRY})
    Path("train.py").chmod(0)
    assert linted("train.py") == ["train.py:1:1 CODE001"]


def test_a_pipe_is_not_waited_for_and_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refusal, match=r"nowhere\.py is not there"):
        lint([Path("nowhere.py")])
    os.mkfifo("train.py")
    assert linted("train.py") == ["train.py:1:1 CODE001"]
    assert linted(".") == []


def test_a_helper_of_many_scripts_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_source = reading.read_source

    def counted(data: bytes, path: Path) -> FileIndex | Unread:
        read.append(path.name)
        return read_source(data, path)

    monkeypatch.setattr(reading, "read_source", counted)
    write(
        {f"{number:02}.py": "import helper\n" for number in range(FEW_FILES)} | {"helper.py": "barrier()\n"}
    )
    lint([Path(f"{number:02}.py") for number in range(FEW_FILES)], processes=1)
    assert read.count("helper.py") == 1
    assert len(read) == FEW_FILES + 1


def test_a_program_that_is_too_deep_for_a_rule_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(program: Program) -> Iterator[Finding]:
        raise RecursionError

    monkeypatch.setattr(check, "RULES", (deep,))
    write({"a.py": "a = 1\n", "b.py": "b = 1\n"})
    assert linted("a.py", "b.py") == ["a.py:1:1 CODE001", "b.py:1:1 CODE001"]
