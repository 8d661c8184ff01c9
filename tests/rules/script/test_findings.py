"""The comments that accept findings, and the edits of fixes and what a script is after them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from launcher.failure_modes.model import Edit, Finding, Fix
from launcher.program.index import FileIndex, statement_of
from launcher.program.program import Program, read_program, read_source
from launcher.rules.script.acceptance import IgnoreComment, ignore_comments
from launcher.rules.script.check import DATA_RULES
from launcher.rules.script.environment import environment_holds_strings
from launcher.rules.script.findings import (
    EditError,
    apply_edits,
    compatible_fixes,
    insert_before,
    remove_keyword,
    replace_node,
    wrap_node,
)
from launcher.rules.script.gradients import CLIPPING_RULES
from launcher.rules.script.starts.command_line import OPTION_RULES
from launcher.rules.script.states.loading import checkpoints_are_loaded_beside_the_gpu
from launcher.session.lint_scripts import lint
from tests.rules.script.cases import WriteJob, cases_of, findings_of


def comments(text: str) -> tuple[IgnoreComment, ...]:
    read = read_source(dedent(text).encode(), Path("train.py"))
    assert isinstance(read, FileIndex), read
    return ignore_comments(read)


def accepted_lines(text: str) -> list[int]:
    lines = range(1, text.count("\n") + 2)
    return [line for line in lines if any(each.accepts("DDP004", line) for each in comments(text))]


def test_a_comment_holds_for_its_own_line() -> None:
    assert accepted_lines("a = 1\nb = 2  # slipway: ignore[DDP004]\nc = 3\n") == [2]


def test_a_comment_alone_on_its_line_holds_for_the_statement_below() -> None:
    assert accepted_lines("a = 1\n# slipway: ignore[DDP004]\n\n# why\nb = 2\nc = 3\n")[-1] == 5


def test_it_holds_for_every_line_of_the_statement() -> None:
    assert accepted_lines("f(\n    a,\n    b,\n)  # slipway: ignore[DDP004]\nc = 3\n") == [1, 2, 3, 4]


def test_above_an_if_it_holds_for_the_head_alone() -> None:
    assert accepted_lines("# slipway: ignore[DDP004]\nif a:\n    b()\n") == [2]


def test_above_a_decorator_it_holds_for_what_is_decorated() -> None:
    assert accepted_lines("# slipway: ignore[DDP004]\n@a\n@b\ndef f():\n    pass\n") == [2, 3, 4]


def test_ignore_file_holds_for_all_lines_wherever_it_stands() -> None:
    assert accepted_lines("a = 1\nb = 2  # slipway: ignore-file[DDP004]\n") == [1, 2, 3]


def test_it_names_several_codes_each_with_its_column_and_a_reason() -> None:
    (comment,) = comments("a = 1  # slipway: ignore[DDP004, CKPT008]  one host only\n")
    assert comment.codes == (("DDP004", 26), ("CKPT008", 34))
    assert comment.reason == "one host only"
    assert not comment.accepts("DDP008", 1)


def test_within_a_string_it_is_no_comment() -> None:
    assert comments('a = "# slipway: ignore[DDP004]"\n') == ()


def test_a_word_about_a_slipway_is_no_comment_of_this_kind() -> None:
    assert comments("a = 1  # slipway: where ships are built\n") == ()


@pytest.mark.parametrize(
    ("written", "flaw"),
    [
        ("ignore DDP004", "`ignore DDP004` is not known"),
        ("ignore", "`ignore` names no codes in brackets"),
        ("ignore[]", "`ignore` names no codes in brackets"),
        ("ignore[DDP004", "`ignore` names no codes in brackets"),
        ("ignores[DDP004]", "`ignores[DDP004]` is not known"),
    ],
)
def test_a_comment_that_cannot_be_read_says_why_and_accepts_nothing(written: str, flaw: str) -> None:
    (comment,) = comments(f"a = 1  # slipway: {written}\n")
    assert comment.flaw == flaw
    assert not comment.accepts("DDP004", 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(newline: str) -> None:
    text = f"a = 1{newline}\x0c{newline}b = 2  # slipway: ignore[DDP004]{newline}"
    read = read_source(text.encode(), Path("train.py"))
    assert isinstance(read, FileIndex)
    assert [comment.line for comment in ignore_comments(read)] == [3]


Edits = Callable[[ast.Call], Edit | tuple[Edit, ...] | None]


def after(data: bytes, make: Edits) -> bytes:
    """A file after the edits that are made of its call of `target`."""
    read = read_source(data, Path("train.py"))
    assert isinstance(read, FileIndex), read
    (call,) = read.calls_of["target"]
    made = make(call)
    assert made is not None
    return apply_edits(data, made if isinstance(made, tuple) else (made,))


def sort_it(call: ast.Call) -> tuple[Edit, ...]:
    return wrap_node(call, "sorted(", ")")


def test_an_expression_is_wrapped_and_stays_as_it_is_written() -> None:
    assert after(b"for a in target( 'x' ):  # why\n    pass\n", sort_it) == (
        b"for a in sorted(target( 'x' )):  # why\n    pass\n"
    )


def test_an_expression_is_replaced() -> None:
    data = b"os.environ['A'] = target(1, 2)   # why\n"
    assert after(data, lambda call: replace_node(call, '"1"')) == b"os.environ['A'] = \"1\"   # why\n"


@pytest.mark.parametrize(
    "data",
    [
        "é = 'ü'; target('ä')\n".encode(),
        b"\xef\xbb\xbf" + "é = 'ü'; target('ä')\n".encode(),
        "# -*- coding: latin-1 -*-\né = 'ü'; target('ä')\n".encode("latin-1"),
        "# -*- coding: shift_jis -*-\nx = '日本'; target('語')\n".encode("shift_jis"),
        b"x = '''a\r\nb'''\r\ntarget(1)\r\n",
        b"x = 1\rtarget(1)\r",
        b"\x0cx = 1\n\x0c\ntarget(1)",
        b"if True:\n\ttarget(1)  \n\n\n",
    ],
    ids=["utf-8", "mark", "latin-1", "shift_jis", "crlf", "cr", "form feeds", "tabs"],
)
def test_all_around_stays_byte_for_byte(data: bytes) -> None:
    begin = data.index(b"target(")
    end = data.index(b")", begin) + 1
    assert after(data, sort_it) == data[:begin] + b"sorted(" + data[begin:end] + b")" + data[end:]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (b"target(a, shuffle=True, sampler=s)\n", b"target(a, sampler=s)\n"),
        (b"target(a, sampler=s, shuffle=True)\n", b"target(a, sampler=s)\n"),
        (b"target(shuffle=True, sampler=s)\n", b"target(sampler=s)\n"),
        (b"target(shuffle=True)\n", b"target()\n"),
        (b"target(shuffle=True,)\n", b"target()\n"),
        (b"target((a), shuffle=True)\n", b"target((a))\n"),
        (b"target(\n    a,\n    shuffle=True,\n    b=1,\n)\n", b"target(\n    a,\n    b=1,\n)\n"),
        (b"target(\n    a,\n    b=1,\n    shuffle=True,\n)\n", b"target(\n    a,\n    b=1,\n)\n"),
    ],
)
def test_a_keyword_goes_with_its_comma(before: bytes, wanted: bytes) -> None:
    assert after(before, lambda call: remove_keyword(call, "shuffle")) == wanted


def test_a_keyword_behind_a_comment_stays() -> None:
    read = read_source(b"target(a,  # all of it\n       shuffle=True)\n", Path("train.py"))
    assert isinstance(read, FileIndex)
    assert remove_keyword(read.calls[0], "shuffle") is None


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_statement_comes_before_another_with_its_indentation_and_newline(newline: bytes) -> None:
    data = b"for a in b:" + newline + b"\t# why" + newline + b"\ttarget(1)" + newline
    wanted = data.replace(b"\ttarget", b"\tsampler.set_epoch(a)" + newline + b"\ttarget")
    assert after(data, lambda call: insert_before(statement_of(call), "sampler.set_epoch(a)")) == wanted


def test_a_statement_behind_another_on_its_line_gets_none_before_it() -> None:
    read = read_source(b"a = 1; target(1)\n", Path("train.py"))
    assert isinstance(read, FileIndex)
    assert insert_before(statement_of(read.calls[0]), "b()") is None


def edit(start: int, end: int, text: str = "") -> Edit:
    return Edit("train.py", start, end, text)


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(EditError, match="overlap at character 2"):
        apply_edits(b"abcdef\n", [edit(0, 3, "x"), edit(2, 4, "y")])


def test_two_insertions_at_one_place_are_refused() -> None:
    with pytest.raises(EditError, match="overlap"):
        apply_edits(b"abcdef\n", [edit(1, 1, "x"), edit(1, 1, "y")])


def test_the_same_edit_twice_is_made_once() -> None:
    assert apply_edits(b"abcdef\n", [edit(0, 1, "x"), edit(0, 1, "x")]) == b"xbcdef\n"


def test_edits_next_to_each_other_are_both_made() -> None:
    assert apply_edits(b"abcdef\n", [edit(0, 1, "x"), edit(1, 2, "y")]) == b"xycdef\n"


def test_an_edit_outside_of_the_file_is_refused() -> None:
    with pytest.raises(EditError, match="outside"):
        apply_edits(b"a = 1\n", [edit(3, 99, "x")])


def test_what_would_not_parse_is_refused() -> None:
    with pytest.raises(EditError, match="no valid Python"):
        apply_edits(b"a = 1\n", [edit(0, 1, "(")])


def test_what_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(EditError, match="iso-8859-1 lacks '語'"):
        apply_edits(b"# coding: latin-1\na = 1\n", [edit(18, 19, "語")])


def test_of_fixes_that_overlap_the_first_is_made_and_whole() -> None:
    first = Fix(True, (edit(0, 2), edit(8, 9)))
    second = Fix(True, (edit(4, 5), edit(1, 3)))
    third = Fix(True, (edit(4, 6),))
    assert compatible_fixes([first, second, third]) == [first, third]


HEAD = """\
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
"""


def fixed(folder: Path, text: str, code: str, head: str = HEAD) -> str | None:
    """The script behind its head after the one fix for a code; None where the finding has none."""
    file = folder / "train.py"
    file.write_text(head + dedent(text))
    (finding,) = [each for each in lint([file]).findings if each.code == code]
    if finding.fix is None:
        return None
    assert not finding.fix.safe
    return apply_edits(file.read_bytes(), finding.fix.edits).decode().removeprefix(head)


def test_a_save_is_put_under_a_test_for_rank_zero(tmp_path: Path) -> None:
    assert fixed(tmp_path, """\
        for epoch in range(3):
            torch.save({}, "x.pt")  # each epoch
        """, "CKPT008") == dedent("""\
        for epoch in range(3):
            if dist.get_rank() == 0:
                torch.save({}, "x.pt")  # each epoch
        """)  # fmt: skip


def test_torch_distributed_is_called_as_the_file_calls_it(tmp_path: Path) -> None:
    head = 'import torch as t\nt.distributed.init_process_group("nccl")\n'
    text = fixed(tmp_path, 't.save({}, "x.pt")\n', "CKPT008", head)
    assert text == 'if t.distributed.get_rank() == 0:\n    t.save({}, "x.pt")\n'


@pytest.mark.parametrize(
    "text",
    [
        'x = 1; torch.save({}, "x.pt")\n',
        'torch.save({}, "x.pt"); x = 1\n',
        'torch.save({"note": """a\nb"""}, "x.pt")\n',
        'done = torch.save({}, "x.pt")\n',
        'if True: torch.save({}, "x.pt")\n',
    ],
)
def test_a_save_that_shares_its_lines_is_left_to_its_author(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "CKPT008") is None


def test_the_last_statement_under_a_test_goes_behind_it(tmp_path: Path) -> None:
    assert fixed(tmp_path, """\
        if rank == 0:
            print("saved")
            dist.barrier()
        """, "DDP004") == dedent("""\
        if rank == 0:
            print("saved")
        dist.barrier()
        """)  # fmt: skip


def test_a_statement_alone_under_a_test_takes_its_place(tmp_path: Path) -> None:
    assert fixed(tmp_path, "if rank == 0:\n    dist.barrier()\nprint(rank)\n", "DDP004") == (
        "dist.barrier()\nprint(rank)\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "if rank == 0:\n    dist.barrier()\n    print(1)\n",
        "if rank == 0:\n    dist.barrier()\nelse:\n    print(1)\n",
        "if rank == 0:\n    # all of them\n    dist.barrier()\n",
        "if rank == 0: dist.barrier()\n",
        "if rank > 3:\n    print(1)\nelif rank == 0:\n    dist.barrier()\n",
    ],
)
def test_a_collective_with_something_behind_it_or_another_arm_stays(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "DDP004") is None


def test_the_group_is_destroyed_at_the_end_of_the_main_guard(tmp_path: Path) -> None:
    text = 'def main():\n    pass\n\n\nif __name__ == "__main__":\n    main()'
    assert fixed(tmp_path, text, "DDP006") == (
        f"{text}\n    if dist.is_initialized():\n        dist.destroy_process_group()\n"
    )


def test_a_file_whose_lines_end_with_carriage_returns_alone_is_fixed_too(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    text = f"{HEAD}def run():\n    pass\nif __name__ == '__main__':\n    run()\n"
    file.write_bytes(text.replace("\n", "\r").encode())
    (finding,) = [each for each in lint([file]).findings if each.code == "DDP006"]
    assert finding.fix is not None
    assert apply_edits(file.read_bytes(), finding.fix.edits).endswith(b"    dist.destroy_process_group()\r")


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    pass\nmain()\n",
        'import torch.multiprocessing as mp\nif __name__ == "__main__":\n    mp.spawn(print)\n',
        'if __name__ == "__main__":\n    x = 1\n',
    ],
)
def test_a_group_of_other_processes_or_without_a_main_guard_is_left_alone(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "DDP006") is None


START = """\
import glob, os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
rank, world_size = dist.get_rank(), dist.get_world_size()
"""


SAFELY_FIXED = (*DATA_RULES, *CLIPPING_RULES, *OPTION_RULES, environment_holds_strings)


def findings(file: Path) -> list[Finding]:
    program = read_program(file)
    assert isinstance(program, Program)
    return [finding for rule in SAFELY_FIXED for finding in rule(program)]


def fixed_safely(file: Path, text: str, start: str = START) -> str:
    """The text after the one fix of its one finding, of which nothing is left then."""
    file.write_text(start + text)
    (finding,) = findings(file)
    assert finding.fix is not None
    assert finding.fix.safe
    file.write_bytes(apply_edits(file.read_bytes(), finding.fix.edits))
    assert findings(file) == []
    return file.read_text().removeprefix(start)


PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"
EPOCHS = """\
sampler = DistributedSampler(dataset)  # shuffles
loader = DataLoader(dataset, sampler=sampler)
for epoch in range(90):
{}    for batch in loader:  # all of it
        model(batch).backward()
"""


def test_set_epoch_comes_at_the_head_of_the_epoch(tmp_path: Path) -> None:
    after = fixed_safely(tmp_path / "train.py", EPOCHS.format(""))
    assert after == EPOCHS.format("    sampler.set_epoch(epoch)\n")


def test_set_epoch_reaches_a_sampler_of_the_module(tmp_path: Path) -> None:
    text = (
        "sampler = DistributedSampler(dataset)\nloader = DataLoader(dataset, sampler=sampler)\n"
        "def main():\n\tfor number in range(9):\n{}\t\tfor batch in loader: model(batch).backward()\nmain()\n"
    )
    after = fixed_safely(tmp_path / "train.py", text.format(""))
    assert after == text.format("\t\tsampler.set_epoch(number)\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "loader = DataLoader(dataset, sampler=DistributedSampler(dataset))\n"
            "for epoch in range(9):\n    for batch in loader: model(batch).backward()",
            id="a sampler without a name",
        ),
        pytest.param(
            "if world_size > 1:\n    sampler = DistributedSampler(dataset)\nelse:\n    sampler = None\n"
            "loader = DataLoader(dataset, sampler=sampler)\n"
            "for epoch in range(9):\n    for batch in loader: model(batch).backward()",
            id="a sampler that may be None",
        ),
        pytest.param(
            "sampler = DistributedSampler(dataset)\nloader = DataLoader(dataset, sampler=sampler)\n"
            "for _ in range(9):\n    for batch in loader: model(batch).backward()",
            id="an epoch without a name",
        ),
        pytest.param(
            "mine = [e.path for e in os.scandir('d')][rank::world_size]", id="entries have no order"
        ),
        pytest.param("x = list(set(glob.glob('*')))[rank::8]", id="a set has no order"),
        pytest.param(
            "files = []\nfor _, _, names in os.walk('d'):\n    files.extend(names)\nx = files[rank::8]",
            id="a walk has another order of folders",
        ),
        *(
            pytest.param(f"{PARSER}parser.add_argument('--amp', type=bool{rest})", id=f"an option{rest}")
            for rest in ("", ", default=None", ", default=True, nargs='?'", ", default=True, **more")
        ),
    ],
)
def test_what_is_not_sure_to_be_right_is_not_fixed(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(START + text)
    assert [each.fix for each in findings(tmp_path / "train.py")] == [None]


def test_a_listing_is_sorted(tmp_path: Path) -> None:
    text = "mine = {}[rank::world_size]  # ours\n"
    after = fixed_safely(tmp_path / "train.py", text.format("glob.glob('*.tar')"))
    assert after == text.format("sorted(glob.glob('*.tar'))")


def test_shuffle_is_dropped_beside_a_sampler(tmp_path: Path) -> None:
    text = (
        "sampler = DistributedSampler(dataset)\n"
        "loader = DataLoader(\n    dataset,{}\n    sampler=sampler,\n)\n"
    )
    assert fixed_safely(tmp_path / "train.py", text.format("\n    shuffle=True,")) == text.format("")


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ('os.environ["N"] = 4  # devices', 'os.environ["N"] = str(4)  # devices'),
        ('os.environ.update({"N": 4, "M": "1"})', 'os.environ.update({"N": str(4), "M": "1"})'),
        ('os.environ.setdefault("N", 2 + 2)', 'os.environ.setdefault("N", str(2 + 2))'),
    ],
)
def test_the_value_of_a_variable_becomes_a_string(tmp_path: Path, line: str, fixed: str) -> None:
    assert fixed_safely(tmp_path / "train.py", line + "\n", "import os\n") == fixed + "\n"


def test_a_switch_gets_an_opposite(tmp_path: Path) -> None:
    after = fixed_safely(
        tmp_path / "train.py", 'parser.add_argument("--amp", type=bool, default=True)  # mixed\n', PARSER
    )
    assert after == (
        'parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)  # mixed\n'
    )


def test_gradients_are_unscaled_on_a_line_of_its_own_before_they_are_clipped(tmp_path: Path) -> None:
    text = (
        'net, scaler = torch.nn.Linear(1, 1), torch.amp.GradScaler("cuda")\n'
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor x in data:\n"
        "    scaler.scale(net(x)).backward()\n{}    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    after = fixed_safely(tmp_path / "train.py", text.format(""))
    assert after == text.format("    scaler.unscale_(optimizer)\n")


def test_a_state_is_loaded_to_the_cpu_by_a_fix_that_is_not_safe(write_job: WriteJob) -> None:
    cases = [case for case in cases_of(checkpoints_are_loaded_beside_the_gpu) if case.marks]
    fixes = [each.fix for case in cases for each in findings_of(case, write_job)]
    assert [fix is not None and fix.safe for fix in fixes] == [False] * len(cases)
    assert None not in fixes


def test_a_finding_names_its_guard_and_the_helper_as_notes(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(HEAD + "from tools import save\nif rank == 0:\n    save(1)\n")
    (tmp_path / "tools.py").write_text("import torch.distributed as d\ndef save(x):\n    d.barrier()\n")
    (found,) = [each for each in lint([file]).findings if each.code == "DDP004"]
    shape = found.to_json()
    place = {"file": str(file), "line": 7, "column": 5, "end_line": 7, "end_column": 12}
    assert shape["location"] == place
    guard, origin = shape["related"]
    assert (guard["line"], guard["message"]) == (6, "under `rank == 0`")
    assert (origin["file"], origin["line"]) == (str(tmp_path / "tools.py"), 3)
    assert "rank 0 alone" in found.message
