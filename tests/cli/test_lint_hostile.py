"""`launch lint` on whatever may lie in a folder: a finding or nothing, never a fault of the launcher."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding
from launcher.program import program as reading
from launcher.program.program import Program
from launcher.session import lint_scripts
from tests.cli.conftest import RunLaunch

SCRIPT = """\
import torch.distributed as dist
dist.init_process_group("nccl")
if __name__ == "__main__":
    if dist.get_rank() == 0:
        dist.barrier()
"""
DATA = SCRIPT.encode()

UNREADABLE = {
    "null bytes": DATA + b"\0",
    "UTF-16": SCRIPT.encode("utf-16"),
    "UTF-16 without a mark": SCRIPT.encode("utf-16-le"),
    "Latin-1 that does not say so": DATA + b"# \xe9\n",
    "a codec of bytes": b"# coding: zlib\n" + DATA,
    "a codec of texts": b"# coding: rot13\n" + DATA,
    "a codec that always fails": b"# coding: undefined\n" + DATA,
    "a codec that takes long": b"# coding: punycode\n" + DATA,
    "a codec that is not there": b"# coding: klingon\n" + DATA,
    "two encodings": b"\xef\xbb\xbf# coding: latin-1\n" + DATA,
    "tabs and spaces": b"if 1:\n\tx = 1\n        y = 2\n",
    "Python 2": b'print "a"\nexec "b"\n',
    "Python 3.14": b'x = t"{a}"\n',
    "a notebook's magics": b"%matplotlib inline\n!pip install torch\n",
    "1,000 parentheses": b"(" * 1000 + b")" * 1000,
    "1,000 blocks": "".join(f"{' ' * n}if x:\n" for n in range(1000)).encode() + b" " * 1000 + b"pass\n",
    "a deep expression": b"-" * 100_000 + b"1",
    "a long number": b"x = " + b"9" * 10_000,
    "an open string": b'x = """' + DATA,
    "escapes of a terminal": b"x = (\x1b[2J\x1b]0;title\x07 \xc2\x9b31m\n",
}

READ = {
    "a mark of UTF-8": b"\xef\xbb\xbf" + DATA,
    "Latin-1 that says so": b"# coding: latin-1\n# \xe9\n" + DATA,
    "UTF-7": b"# coding: utf-7\n" + DATA,
    "carriage returns": DATA.replace(b"\n", b"\r"),
    "Windows": DATA.replace(b"\n", b"\r\n"),
    "form feeds": DATA.replace(b"if ", b"\x0cif ", 1),
    "a long line": DATA + b'x = "' + b"a" * 1_000_000 + b'"\n',
    "escapes of a terminal": DATA.replace(
        b"dist.barrier()", b'dist.barrier()  # \x1b[2J\xe2\x80\xae"\x1b]0;x\x07'
    ),
}


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.few_cases(every=5)
@pytest.mark.parametrize("output", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_python_is_one_finding_and_the_others_are_judged(
    run_launch: RunLaunch, name: str, output: str
) -> None:
    Path("broken.py").write_bytes(UNREADABLE[name])
    Path("train.py").write_bytes(DATA)
    code, out, err = run_launch("lint", "broken.py", "train.py", "--output", output)
    assert code == 1, err
    assert out.count("DDP004") > 0
    assert "\x1b" not in out + err
    if output == "json":
        told = [(each["code"], each["location"]["file"]) for each in json.loads(out)["findings"]]
        assert told.count(("CODE001", "broken.py")) == 1
        assert ("DDP004", "train.py") in told


@pytest.mark.parametrize("name", READ)
def test_what_is_python_is_judged_however_it_is_written(run_launch: RunLaunch, name: str) -> None:
    Path("train.py").write_bytes(READ[name])
    code, out, _ = run_launch("lint", "train.py")
    assert code == 1
    assert "error DDP004 " in out
    assert "\x1b" not in out
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in out


@pytest.mark.parametrize("folder", [True, False], ids=["in a folder", "by its name"])
@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "device", "folder", "a link to itself", "a link to nothing"]
)
def test_what_is_no_file_is_not_waited_for(run_launch: RunLaunch, kind: str, folder: bool) -> None:
    odd = Path("x.py")
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("x.py")
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to({"device": "/dev/zero", "a link to itself": "x.py"}.get(kind, "nowhere"))
    Path("train.py").write_text("import x\n" + SCRIPT, "utf-8")
    code, out, err = run_launch("lint", *([Path()] if folder else [odd, "train.py"]))
    assert code == 1, err
    assert "DDP004" in out
    assert ("CODE001" in out) == (not folder and kind != "folder")


def test_a_file_of_any_size_is_not_read_to_be_shown_or_looked_at(run_launch: RunLaunch) -> None:
    with Path("big.py").open("wb") as file:
        file.truncate(1 << 40)
    code, out, _ = run_launch("lint", "big.py")
    assert code == 1
    assert "it has more than 4 MB" in out
    assert run_launch("lint", ".")[:2] == (0, "")


def test_a_file_of_nothing_but_short_statements_is_not_parsed(run_launch: RunLaunch) -> None:
    Path("dense.py").write_bytes(b"x\n" * 600_000)
    code, out, _ = run_launch("lint", "dense.py")
    assert code == 1
    assert f"it has more than {reading.MOST_WORDS} words and lines" in out


def test_a_program_that_takes_too_long_is_a_warning_and_the_next_is_judged(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_ends(program: Program) -> Iterator[Finding]:
        yield from check(program)
        while program.entry.path.name == "long.py":
            pass

    check = lint_scripts.check_program
    monkeypatch.setattr(lint_scripts, "check_program", never_ends)
    monkeypatch.setattr(lint_scripts, "MOST_SECONDS", 0.05)
    Path("long.py").write_text(SCRIPT, "utf-8")
    Path("train.py").write_text(SCRIPT, "utf-8")
    code, out, _ = run_launch("lint", "long.py", "train.py")
    assert code == 1
    assert "warning CODE001 not judged to the end: after 0.05 s of computing" in out
    assert "train.py:5:9" in out
    assert "long.py:5:9" in out  # What was found until then.


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (KeyError("x"), "KeyError in test_lint_hostile.py, line "),
        (RecursionError(), "its expressions or calls are nested too deeply"),
    ],
)
def test_a_program_on_which_the_rules_fail_is_a_warning_and_the_next_is_judged(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, fault: Exception, reason: str
) -> None:
    def fails(program: Program) -> Iterator[Finding]:
        if program.entry.path.name == "odd.py":
            raise fault
        yield from check(program)

    check = lint_scripts.check_program
    monkeypatch.setattr(lint_scripts, "check_program", fails)
    Path("odd.py").write_text(SCRIPT, "utf-8")
    Path("train.py").write_text(SCRIPT, "utf-8")
    code, out, _ = run_launch("lint", "odd.py", "train.py", "--output", "json")
    assert code == 1
    found = [(each["code"], each["severity"], each["message"]) for each in json.loads(out)["findings"]]
    assert ("CODE001", "warning") in {each[:2] for each in found}
    assert any(reason in each[2] for each in found)
    assert any(each[0] == "DDP004" for each in found)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("new\nline.py", "new\\nline.py"),
        ("a\x1b[31m.py", "a.py"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}.py", "\\u202e.py"),
        (os.fsdecode(b"\xff\xfe.py"), ""),
        ("-rf.py", "-rf.py"),
        ("$(x) `y` ';\".py", "$(x) `y` ';\".py"),
    ],
)
def test_a_name_is_shown_on_one_line_and_does_nothing(run_launch: RunLaunch, name: str, shown: str) -> None:
    Path(name).write_text(SCRIPT, "utf-8")
    for output in ("text", "json", "sarif", "github"):
        code, out, err = run_launch("lint", ".", "--output", output)
        assert code == 1, err
        assert "\x1b" not in out
        if output == "text":
            place = next(line for line in out.splitlines() if line.startswith("  --> "))
            assert place.endswith(":5:9")
            assert shown in place
        if output == "github":
            assert all(line.startswith("::") for line in out.splitlines())


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        (b"slipway = " + b"[" * 100_000, "SPEC001"),
        (b"# slipway \xff", "SPEC001"),
        (b"[tool.slipway.lint]\nselect = " + b"9" * 5000, "SPEC001"),
        (b"tool = [1]  # slipway", "SPEC001"),
        (b"[tool]\nslipway = 1", "SPEC001"),
        (b"[tool.slipway]\nlint = 1", "SPEC003"),
        (b'[tool.slipway.lint]\n"\\u001b[31m" = 1', "SPEC002"),
        (b'[tool.slipway.lint]\nexclude = ["' + b"*a" * 2000 + b'", "[", "[z-a]"]', "DDP004"),
        (b"[tool.slipway.lint]\n" + b"a." * 3000 + b"b = 1", "SPEC002"),
    ],
)
def test_a_hostile_configuration_is_told_or_without_effect(
    run_launch: RunLaunch, configuration: bytes, said: str
) -> None:
    Path("pyproject.toml").write_bytes(configuration)
    Path("train.py").write_text(SCRIPT, "utf-8")
    code, out, err = run_launch("lint", ".")
    assert code == 1, err
    assert said in out
    assert "\x1b" not in out


def test_a_configuration_of_the_program_whose_merges_grow_without_end_is_left(run_launch: RunLaunch) -> None:
    levels = [f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)]
    Path("config.yaml").write_text("a0: &a0 {folder: out}\n" + "".join(levels), "utf-8")
    saves = "import torch, yaml\ncfg = yaml.safe_load(open('config.yaml'))\n"
    saves += "torch.save({}, cfg['a39']['folder'])\n"
    Path("train.py").write_text(saves + SCRIPT, "utf-8")
    job = "name: a\ncode: {source_dir: ., entry_point: train.py}\nframework: {name: pytorch}\n"
    Path("job.yaml").write_text(
        f"{job}resources: {{instance_type: ml.m5.xlarge, instance_count: 1}}\n", "utf-8"
    )
    code, out, _ = run_launch("check", "job.yaml")
    assert (code, "not judged" in out) == (1, False)


def test_a_pipe_as_configuration_is_not_waited_for(run_launch: RunLaunch) -> None:
    os.mkfifo("pyproject.toml")
    Path("train.py").write_text(SCRIPT, "utf-8")
    assert run_launch("lint", "train.py")[0] == 1


def test_imports_that_turn_in_circles_or_lead_nowhere_are_followed_once(run_launch: RunLaunch) -> None:
    Path("train.py").write_text(
        f"import a\nimport a{'.b' * 5000}\nfrom {'.' * 3000} import y\nimport {'x' * 5000}\n{SCRIPT}", "utf-8"
    )
    Path("a.py").write_text("from b import *\nimport train\n", "utf-8")
    Path("b.py").write_text("from a import *\nimport b\n", "utf-8")
    Path("up").symlink_to("..")
    code, _, err = run_launch("lint", ".")
    assert (code, "3 files of 1 program" in err) == (1, True)


def test_a_folder_that_cannot_be_listed_is_refused(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    Path("closed").mkdir()
    monkeypatch.setattr(os, "scandir", denied)
    code, _, err = run_launch("lint", "closed")
    assert code == 2
    assert "closed cannot be looked at: Permission denied" in err


def test_a_path_that_is_too_long_is_refused(run_launch: RunLaunch) -> None:
    code, _, err = run_launch("lint", "a" * 5000)
    assert code == 2
    assert "fault of the launcher" not in err
