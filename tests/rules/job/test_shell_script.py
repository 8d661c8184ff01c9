"""Shell scripts that no shell on Linux runs as they are meant: CODE002."""

from __future__ import annotations

from pathlib import Path

import pytest

SCRIPT = {"source_dir": "src", "entry_point": "train.sh"}
NONE = {"strategy": "none", "processes_per_host": 1}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path / "src" / "train.sh"


def test_windows_line_ends_are_found_with_the_line(judge, script: Path) -> None:
    script.write_bytes(b"#!/bin/bash\nset -e\r\npython train.py\r\n")
    (finding,) = judge("CODE002", code_section=SCRIPT, distribution=NONE)
    assert (finding.severity, finding.path) == ("error", ("code", "entry_point"))
    assert "Windows line ends (line 2)" in finding.message


@pytest.mark.parametrize(
    ("first", "mode", "named"),
    [
        ("#!/usr/bin/env python3", 0o644, "python3"),
        ("#!/usr/bin/env -S A=b python3 -u", 0o644, "python3"),
        ("#! /no/such", 0o644, "such"),
        ("#!/usr/bin/env python3", 0o755, None),
        ("#!/usr/bin/env bash", 0o644, None),
        ("#!/bin/sh -e", 0o644, None),
        ("#!", 0o644, None),
        ("echo", 0o644, None),
    ],
)
def test_without_the_run_bit_bash_runs_what_names_another_program(
    judge, script: Path, first: str, mode: int, named: str | None
) -> None:
    script.write_text(f"{first}\necho\n")
    script.chmod(mode)
    found = judge("CODE002", code_section=SCRIPT, distribution=NONE)
    assert [finding.severity for finding in found] == (["error"] if named else [])
    assert all(f"bash would run it instead of {named}" in finding.message for finding in found)


def test_a_shell_script_that_is_not_there_is_said_once(judge, script: Path) -> None:
    assert len(judge("CODE002", code_section=SCRIPT, distribution=NONE)) == 1
    assert not script.exists()
