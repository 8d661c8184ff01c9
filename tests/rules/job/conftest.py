"""A job of a few lines, planned and judged by all rules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import pytest

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import Finding
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.program.program import Program, read_program
from launcher.rules.job.check import check_job
from launcher.rules.job.subject import JobSubject, RunPlace
from launcher.session.prepare_plan import script_command_line, source_of
from launcher.source.tree import SourceTree


class Judge(Protocol):
    """Findings of a job with the given fields; all of them, or those of one code.

    `files` are written beside the job file, `src/train.py` in place of a script that prints a line.
    """

    def __call__(
        self,
        code: str | None = None,
        *,
        manifest: dict[str, Any] | None = None,
        names: tuple[str, ...] = (),
        here: bool = False,
        files: dict[str, str] | None = None,
        **fields: Any,
    ) -> list[Finding]: ...


@pytest.fixture
def judge(write_job: Callable[..., Path]) -> Judge:
    def findings(
        code: str | None = None,
        *,
        manifest: dict[str, Any] | None = None,
        names: tuple[str, ...] = (),
        here: bool = False,
        files: dict[str, str] | None = None,
        **fields: Any,
    ) -> list[Finding]:
        if "code_section" in fields:
            fields["code"] = fields.pop("code_section")
        job_file = write_job(**fields)
        for name, text in (files or {}).items():
            (job_file.parent / name).parent.mkdir(parents=True, exist_ok=True)
            (job_file.parent / name).write_text(text, "utf-8")
        loaded = load_job(job_file)
        assert loaded.spec is not None, loaded.findings
        cluster = None if manifest is None else Cluster.model_validate(manifest)
        source = source_of(loaded.spec, loaded.file.parent)
        plan = plan_job(
            loaded.spec,
            cluster,
            unique="0unique",
            source=source,
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )
        subject = JobSubject(
            job=plan.spec or loaded.spec,
            plan=plan,
            facts=instance_facts(loaded.spec.resources.instance_type),
            source=source,
            cluster=cluster,
            names=frozenset(names),
            place=RunPlace.LOCAL if here else RunPlace.SAGEMAKER,
            command_line=script_command_line(loaded.spec, source),
            program=_program_of(source),
        )
        found = [finding.located(loaded.location) for finding in check_job(subject)]
        return [finding for finding in found if code in (None, finding.code)]

    return findings


def _program_of(source: SourceTree) -> Program | None:
    if not source.packs_entry_point:
        return None
    program = read_program(source.folder / source.entry_point_name, source.folder)
    return program if isinstance(program, Program) else None


@pytest.fixture
def severity_of(judge: Judge) -> Callable[..., str | None]:
    """The severity of the one finding of a code, None where there is none."""

    def severity(code: str, **fields: Any) -> str | None:
        found = judge(code, **fields)
        assert len(found) <= 1, [finding.message for finding in found]
        return found[0].severity.value if found else None

    return severity
