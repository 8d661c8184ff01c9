"""However a script is laid out, its fixes do what they promise, and nothing else."""

from __future__ import annotations

import ast
import os
import tokenize
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.session.lint_scripts import Lint, Repair, lint, repair

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

START = """\
import argparse, glob, os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
"""

FIXABLE = CASES["fixable"]

ONE_OF_EACH = [(code, text) for code, texts in FIXABLE.items() for text in texts]


def plain(text: str) -> str:
    return text


def in_a_function(text: str) -> str:
    return f"@torch.no_grad()\ndef main():  # starts here\n{indent(text, '    ')}\nmain()"


def in_blocks(text: str) -> str:
    return f"if True:\n    try:\n{indent(text, '        ')}\n    finally:\n        pass"


def with_tabs(text: str) -> str:
    return in_blocks(text).replace("    ", "\t")


def on_one_line(text: str) -> str:
    return text if "\n" in text else f"if True: x = 1; {text}; y = 2"


def continued(text: str) -> str:
    return text if "\n" in text else text.replace(" = ", " = \\\n    ", 1)


def commented(text: str) -> str:
    return "\n".join(f"{line}  # é ü 中 {number}" for number, line in enumerate(text.split("\n")))


LAYOUTS = [plain, in_a_function, in_blocks, with_tabs, on_one_line, continued, commented]
ENCODINGS = [
    ("", "utf-8", b""),
    ("", "utf-8", b"\xef\xbb\xbf"),
    ("# coding: latin-1\n", "latin-1", b""),
    ("#!/usr/bin/python\n# -*- coding: cp1252 -*-\n", "cp1252", b""),
]


def written(pieces: list[str], encoding: tuple[str, str, bytes], newline: str) -> bytes:
    head, codec, mark = encoding
    text = head + START + "\n".join(pieces) + "\n"
    if codec != "utf-8":
        text = text.replace("中", "ß")
    return mark + text.replace("\n", newline).encode(codec)


def repaired(file: Path) -> Repair:
    def judge(changed: Mapping[str, bytes]) -> Lint:
        return lint([file], changed=changed)

    return repair(judge, unsafe=True)


def counted(result: Lint) -> Counter[str]:
    return Counter(each.code for each in result.findings)


def promises_hold(data: bytes) -> Repair:
    """Repair a script of these bytes, and look at what fixes promise."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "train.py"
        file.write_bytes(data)
        file.chmod(0o751)
        before = lint([file])
        done = repaired(file)
        done.write()
        after_data, after = file.read_bytes(), lint([file])
        assert file.stat().st_mode & 0o777 == 0o751
        assert os.listdir(folder) == ["train.py"]  # noqa: PTH208 - names alone

        ast.parse(after_data)
        # Pieces with the same names may lose more than one finding by one fix.
        assert counted(after) <= counted(before) - Counter(each.code for each in done.fixed)
        # In their order; an edit may make another line that looks like one of them.
        kept = iter(after_data.splitlines(keepends=True))
        assert all(line in kept for line in untouched(data, before))
        assert newlines(after_data) == newlines(data)
        assert encoding_of(after_data) == encoding_of(data)
        again = repaired(file)
        assert (again.changed, again.fixed) == ({}, [])
        return done


def untouched(data: bytes, found: Lint) -> list[bytes]:
    """The lines of a file in which no fix edits anything, each only where no other line is the same."""
    codec, mark = encoding_of(data)
    text = data[len(mark) :].decode(codec)
    places = {
        number
        for finding in found.findings
        if finding.fix
        for edit in finding.fix.edits
        for number in range(lines_before(text[: edit.start]), lines_before(text[: edit.end]) + 1)
    }
    lines = data.splitlines(keepends=True)
    counts = Counter(lines)
    return [line for number, line in enumerate(lines) if number not in places and counts[line] == 1]


def lines_before(text: str) -> int:
    return len((text + "x").encode().splitlines()) - 1


def newlines(data: bytes) -> set[bytes]:
    return {line[len(line.rstrip(b"\r\n")) :] for line in data.splitlines(keepends=True)}


def encoding_of(data: bytes) -> tuple[str, bytes]:
    encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    return encoding.removesuffix("-sig"), data[:3] if data.startswith(b"\xef\xbb\xbf") else b""


@pytest.mark.parametrize(("code", "text"), ONE_OF_EACH)
def test_each_fix_is_made_in_a_plain_script(code: str, text: str) -> None:
    done = promises_hold(written([text], ENCODINGS[0], "\n"))
    assert {each.code for each in done.fixed} == {code}
    assert done.refused == []


@given(
    st.lists(st.tuples(st.sampled_from(ONE_OF_EACH), st.sampled_from(LAYOUTS)), min_size=1, max_size=4),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(max_examples=60, deadline=None)
def test_fixes_keep_their_promises_in_every_layout(
    pieces: list[tuple[tuple[str, str], object]], encoding: tuple[str, str, bytes], newline: str
) -> None:
    # Python's own look for the encoding takes a file without line feeds for one line.
    encoding = ENCODINGS[0] if newline == "\r" else encoding
    promises_hold(written([layout(text) for (_, text), layout in pieces], encoding, newline))  # type: ignore[operator]


def test_two_fixes_in_one_statement_are_both_made() -> None:
    text = (
        "loader = DataLoader(glob.glob('*')[rank::world_size], shuffle=True, "
        "sampler=DistributedSampler(dataset)); os.environ['A'] = 4"
    )
    done = promises_hold(written([text], ENCODINGS[0], "\n"))
    assert sorted(each.code for each in done.fixed) == ["CODE003", "DATA002", "DATA003"]
