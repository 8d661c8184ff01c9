"""A script, with the planned job that starts it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from textwrap import dedent
from typing import Any

from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.program.program import Program, read_program
from launcher.rules.script.findings import ScriptSubject
from launcher.session.prepare_plan import source_of


def subject_of(write_job: Callable[..., Path], script: str, **fields: Any) -> ScriptSubject:
    """The script as the entry point of a job with these fields."""
    file = write_job(**fields)
    entry = file.parent / "src" / "train.py"
    entry.write_text(dedent(script), "utf-8")
    loaded = load_job(file)
    assert loaded.spec is not None, loaded.findings
    plan = plan_job(
        loaded.spec,
        None,
        unique="0unique",
        source=source_of(loaded.spec, file.parent),
        session_region="us-west-2",
        today=date(2026, 11, 22),
    )
    program = read_program(entry)
    assert isinstance(program, Program)
    return ScriptSubject(program, loaded.spec, plan)
