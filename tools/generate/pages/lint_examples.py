"""The examples on the page of the lint's rules: one program with a mistake and the same one without it.

They are in tools/generate/pages/lint-rules/, a section for each rule and code: a job or a shell script beside
the program where the rule needs one, then the program as a diff whose `-` lines are those of the bad one and
whose `+` lines are those of the good one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.session.lint_scripts import ALL_FINDINGS, lint
from launcher.session.prepare_plan import lint_with_job, source_of
from tools.generate.generated import TEXTS

EXAMPLES = TEXTS / "lint-rules"

SCRIPT = "train.py"
SHELL_SCRIPT = "run.sh"

_JOB: dict[str, Any] = {
    "name": "example",
    "code": {"source_dir": ".", "entry_point": SCRIPT},
    "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
}
"""What an example's job has besides the fields that it shows."""

_TODAY = date(2026, 3, 1)
"""A day on which the images of the examples are patched: findings must not depend on the calendar."""


@dataclass(frozen=True, slots=True)
class Example:
    """A rule's example for one code. `job` is YAML and `shell` a shell script, or empty; `difference` is the
    diff without its head."""

    code: str
    rule: str
    job: str
    difference: str
    shell: str = ""

    @property
    def bad(self) -> str:
        """The program with the mistake."""
        return self._side("-")

    @property
    def good(self) -> str:
        """The program without it."""
        return self._side("+")

    def _side(self, mark: str) -> str:
        lines = self.difference.splitlines(keepends=True)
        return "".join(line[1:] or "\n" for line in lines if line[:1] in (mark, " ", "\n"))


def examples() -> list[Example]:
    """All examples, in the order of their files."""
    return [each for file in sorted(EXAMPLES.glob("*.md")) for each in _read(file.read_text("utf-8"))]


def findings_in(program: str, job: str = "", shell: str = "") -> list[Finding]:
    """All that the lint finds in a program, with a job that has these fields where there are any, and beside
    a shell script where there is one."""
    with TemporaryDirectory() as name, _inside(name):
        Path(SCRIPT).write_text(program, "utf-8")
        if shell:
            Path(SHELL_SCRIPT).write_text(shell, "utf-8")
        if not job:
            return list(lint([Path(SCRIPT)]).findings)
        file = Path("job.yaml")
        file.write_text(yaml.safe_dump(_JOB | yaml.safe_load(job)), "utf-8")
        loaded = load_job(file)
        if loaded.spec is None:
            raise ValueError(f"the job of an example is wrong: {[str(each) for each in loaded.findings]}")
        plan = plan_job(
            loaded.spec,
            None,
            unique="0unique",
            source=source_of(loaded.spec, Path()),
            session_region="us-west-2",
            today=_TODAY,
        )
        return list(lint_with_job(loaded, plan, [], ALL_FINDINGS).findings)


def is_shown(finding: Finding, code: str) -> bool:
    """Whether a finding counts in the example of a code: no accepted one, and no information of another."""
    return not finding.ignored and (finding.severity is not Severity.INFO or finding.code == code)


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """In a folder, so that findings name the script alone."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _read(text: str) -> Iterator[Example]:
    for section in text.split("## ")[1:]:
        head, _, rest = section.partition("\n")
        code, rule = head.split()
        blocks = {
            language: body.removesuffix("\n") + "\n"
            for language, _, body in (block.partition("\n") for block in rest.split("```")[1::2])
        }
        yield Example(code, rule, blocks.get("yaml", ""), blocks["diff"], blocks.get("sh", ""))
