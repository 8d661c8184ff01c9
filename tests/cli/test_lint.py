"""`launch lint` as people and programs see it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import RunLaunch
from tests.program import trial_rules

SCRIPT = """\
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
if rank == 0:
    dist.barrier()
"""


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial_rules.use(monkeypatch)
    Path("train.py").write_text(SCRIPT, "utf-8")


def test_a_finding_is_shown_at_its_line_with_what_it_is_under(run_launch: RunLaunch) -> None:
    code, out, err = run_launch("lint", "train.py", "--select", "DDP004")
    head, place, line, carets, *remedy = out.splitlines()
    assert head == "error DDP004 barrier is called"
    assert place == "  --> train.py:6:5"
    assert line == "6 |     dist.barrier()"
    assert carets == "  |     ^^^^^^^^^^^^^^ under `if rank == 0` (line 5)"
    assert remedy[0].startswith("  = Move the collective out of the branch")
    assert remedy[-2].strip().endswith("launch explain DDP004")
    assert err == "1 error in 1 file of 1 program\n"
    assert code == 1


def test_the_text_is_at_most_80_columns_wide(run_launch: RunLaunch) -> None:
    Path("train.py").write_text(f"if {'a' * 60}:\n    barrier({'b' * 200}, 'ü' * 3)\n", "utf-8")
    _, out, _ = run_launch("lint", "train.py")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def test_a_place_far_right_in_a_long_line_is_shown_with_its_caret(run_launch: RunLaunch) -> None:
    Path("train.py").write_text(f"a = [{'1, ' * 100}barrier()]\n", "utf-8")
    _, out, _ = run_launch("lint", "train.py")
    _, _, line, carets, *_ = out.splitlines()
    at = carets.index("^")
    assert line[at : at + len("barrier()")] == "barrier()"
    assert carets.count("^") == len("barrier()")


def test_github_gets_one_line_for_each_finding(run_launch: RunLaunch) -> None:
    code, out, _ = run_launch("lint", "train.py", "--output", "github")
    (line,) = out.splitlines()
    start = "::error file=train.py,line=6,title=DDP004,endLine=6,col=5,endColumn=19::barrier is called"
    assert line.startswith(f"{start}%0Aunder `if rank == 0`: train.py:5:1%0AMove the collective")
    assert code == 1


def test_fix_writes_and_shows_what_is_left(run_launch: RunLaunch) -> None:
    Path("train.py").write_text('e["A"] = 4\nbarrier()\n', "utf-8")
    code, out, err = run_launch("lint", "train.py", "--fix")
    assert Path("train.py").read_text("utf-8") == 'e["A"] = "4"\nbarrier()\n'
    assert "CODE003" not in out
    assert "2 |" not in out.splitlines()[0]
    assert err.splitlines()[-1] == "fixed 1 finding in 1 file"
    assert code == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_diff_is_what_fix_would_write_and_can_be_applied(run_launch: RunLaunch, newline: str) -> None:
    Path("train.py").write_text('# first\ne["A"] = 4', "utf-8", newline=newline)
    before = Path("train.py").read_bytes()
    code, out, err = run_launch("lint", "train.py", "--diff")
    assert Path("train.py").read_bytes() == before
    assert (code, err) == (0, "would fix 1 finding in 1 file\n")
    Path("of.diff").write_bytes(out.encode())
    subprocess.run(["git", "apply", "of.diff"], check=True)
    assert Path("train.py").read_bytes() == before.replace(b"4", b'"4"')


def test_a_name_with_controls_does_not_act_on_the_terminal(run_launch: RunLaunch) -> None:
    name = Path("a\x1b[31m.py")
    name.write_text("barrier('\x1b[2J')\n", "utf-8")
    for output in ("text", "github"):
        _, out, _ = run_launch("lint", name, "--output", output)
        assert "\x1b" not in out
