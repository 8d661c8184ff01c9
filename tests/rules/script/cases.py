"""The programs that the rules on scripts are tested with: `cases/TOPIC.test`, after the module of the rules.

    [frame]
    import torch.distributed as dist
    rank = dist.get_rank()

    [rule collectives_are_run_by_every_rank]

    [case a barrier of rank 0 alone]
    if rank == 0:
        dist.barrier()  # !DDP004

Where a finding must stand, its code stands behind the line: `# !CODE` for an error, `# !CODE warning` or
`# !CODE info` for less. `: TEXT` behind that is what its message, remedy or notes must hold (` ... ` between
the parts of it), `at TEXT` what it must be about; several marks may stand behind a line. Nothing else may be
found, by any rule.

A `[frame]` holds what stands around the lines of every case below it, to the next frame: before them, or
around its line `<case>`, whose indentation they get. `[rule NAME ...]` says of which rules the cases below it
are: those that find what is marked, or that leave alone what looks like it. `# job: {...}` at the head of a
frame or a case holds the fields of the job that starts the program. `[file NAME]` behind a case is another
file of its program.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from launcher.failure_modes.model import Finding
from launcher.failure_modes.registry import REGISTRY
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.program.program import Program, read_program
from launcher.rules.script.check import JOB_RULES, RULES, RUN_RULES, check_runs
from launcher.rules.script.findings import ScriptSubject
from launcher.rules.script.process_groups import GROUP_RULES
from launcher.rules.script.runs.early_ends import names_are_bound
from launcher.rules.script.runs.meetings import every_rank_destroys_its_group
from launcher.rules.script.starts.job_run import as_started
from launcher.rules.script.starts.timeouts import TIMEOUT_RULES
from launcher.session.prepare_plan import source_of
from tests.case_files import Part, read_parts

FOLDER = Path(__file__).with_name("cases")
ENTRY = "train.py"
OF_GROUPS = {rule.__name__ for rule in (*GROUP_RULES, *TIMEOUT_RULES)}
ON_EVERY_GROUP = {"groups_are_destroyed", "groups_have_a_fitting_timeout"}
"""Rules that find something in nearly every short program that makes a group: those of others are spared."""

WriteJob = Callable[..., Path]

_HEADING = re.compile(r"\[(frame|rule|case|file)(?: (.+))?\]")
_JOB = "# job: "
_HOLE = "<case>"
_MARK = re.compile(
    r"# !(?P<code>[A-Z0-9]+\d{3})(?: (?P<severity>info|warning))?"
    r"(?: at (?P<subject>.+?)|: (?P<said>.+?))?(?:\s+(?=# !)|$)"
)


@dataclass(frozen=True)
class Mark:
    """A finding that must be there, in a file of the program."""

    file: str
    line: int
    code: str
    severity: str
    subject: str | None
    said: tuple[str, ...]

    def fits(self, finding: Finding) -> bool:
        """Whether a finding is the one that is marked."""
        place = finding.location
        if place is None or not place.file.endswith(f"/{self.file}") or place.line != self.line:
            return False
        if (finding.code, finding.severity.value) != (self.code, self.severity):
            return False
        notes = [each.message for each in finding.related]
        told = "\n".join([finding.subject or "", finding.message, finding.remedy, *notes])
        return self.subject in (None, finding.subject) and all(part in told for part in self.said)

    def __str__(self) -> str:
        said = f" at {self.subject}" if self.subject else f": {' ... '.join(self.said)}" if self.said else ""
        return f"{self.code} {self.severity}{said}, {self.file}:{self.line}"


@dataclass(frozen=True)
class ScriptCase:
    """A program, the rules that it is a case of, and what they must find; `place` is its file and line."""

    name: str
    place: str
    rules: tuple[str, ...]
    files: dict[str, str]
    marks: tuple[Mark, ...]
    job: dict[str, Any] | None


@cache
def script_cases() -> dict[str, tuple[ScriptCase, ...]]:
    """All cases, by the topic of their rules."""
    return {file.stem: tuple(read_cases(file)) for file in sorted(FOLDER.glob("*.test"))}


def cases_of(rule: Callable[..., object]) -> list[ScriptCase]:
    """The cases of a rule."""
    return [case for cases in script_cases().values() for case in cases if rule.__name__ in case.rules]


def read_cases(file: Path) -> list[ScriptCase]:
    """The cases of a file, in their order.

    Raises:
        BadCase: The file is not written as it should be.
    """
    found: list[ScriptCase] = []
    rules: tuple[str, ...] = ()
    frame, frame_job = [_HOLE], None
    parts = read_parts(file, _HEADING)
    for number, part in enumerate(parts):
        job, lines = _without_job(part)
        if part.kind == "frame":
            frame_job = job
            frame = lines if any(line.strip() == _HOLE for line in lines) else [*lines, _HOLE]
        elif part.kind == "rule":
            rules = _rules(part)
        elif part.kind == "file" and (not number or parts[number - 1].kind not in ("case", "file")):
            raise part.bad("`[file NAME]` stands behind a case")
        elif part.kind == "case":
            if not part.name or any(case.name == part.name for case in found):
                raise part.bad("each case has a name of its own")
            if not rules or not lines:
                raise part.bad(f"case {part.name} has no lines" if rules else "`[rule NAME]` stands above it")
            others = takewhile(lambda other: other.kind == "file", parts[number + 1 :])
            texts = {ENTRY: _framed(frame, lines), **{each.name: list(each.lines) for each in others}}
            files, marks = _without_marks(part, texts)
            place = f"{file}:{part.number}"
            found.append(ScriptCase(part.name, place, rules, files, marks, frame_job if job is None else job))
    return found


def findings_of(case: ScriptCase, write_job: WriteJob) -> list[Finding]:
    """What the rules say of a case."""
    job = write_job(**case.job or {})
    source = job.parent / "src"
    shutil.rmtree(source)
    source.mkdir()
    for name, text in case.files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, "utf-8")
    program = read_program(source / ENTRY)
    assert isinstance(program, Program), program
    spared = OF_GROUPS.isdisjoint(case.rules) and any(
        "init_process_group" in text for text in case.files.values()
    )
    rules = [rule for rule in RULES if not spared or rule.__name__ not in ON_EVERY_GROUP]
    subject = None if case.job is None else _planned(job, program)
    found = [each for rule in rules for each in rule(program if subject is None else subject.program)]
    if subject is not None:
        found += [each for rule in JOB_RULES for each in rule(subject)]
        found = list(check_runs(subject, found))
        if spared and every_rank_destroys_its_group.__name__ not in case.rules:
            found = [each for each in found if each.code != "DDP006"]
    if names_are_bound.__name__ not in case.rules:  # Of a few lines, in which not all names are made.
        found = [each for each in found if " a NameError" not in each.message]
    return found


def _planned(job: Path, program: Program) -> ScriptSubject:
    loaded = load_job(job)
    assert loaded.spec is not None, loaded.findings
    plan = plan_job(
        loaded.spec,
        None,
        unique="0unique",
        source=source_of(loaded.spec, job.parent),
        session_region="us-west-2",
        today=date(2026, 11, 22),
    )
    spec = plan.spec or loaded.spec
    return ScriptSubject(as_started(program, spec), spec, plan)


def rules_by_name() -> dict[str, Callable[[Any], Any]]:
    """All rules on scripts."""
    rules: list[Callable[[Any], Any]] = [*RULES, *JOB_RULES, *RUN_RULES]
    return {rule.__name__: rule for rule in rules}


def codes_of(rule: str) -> tuple[str, ...]:
    """The codes that a rule registers."""
    function = rules_by_name()[rule]
    return tuple(mode.code for each in REGISTRY if each.function is function for mode in each.modes)


def _without_job(part: Part) -> tuple[dict[str, Any] | None, list[str]]:
    lines = list(part.lines)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines or not lines[0].startswith(_JOB):
        return None, lines
    try:
        return json.loads(lines[0].removeprefix(_JOB)), lines[1:]
    except ValueError as error:
        raise part.bad(f"the job's fields are no JSON: {error}", 1) from error


def _rules(part: Part) -> tuple[str, ...]:
    names = tuple(part.name.split())
    for name in names:
        rule = rules_by_name().get(name)
        if rule is None or rule.__module__.rpartition(".")[2] != part.file.stem:
            raise part.bad(f"{part.file.stem}.py has no rule {name}")
    return names


def _framed(frame: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines of a case where the frame has its hole."""
    hole = next(number for number, line in enumerate(frame) if line.strip() == _HOLE)
    indent = frame[hole].partition(_HOLE)[0]
    return [*frame[:hole], *(indent + line if line else line for line in lines), *frame[hole + 1 :]]


def _without_marks(part: Part, texts: dict[str, list[str]]) -> tuple[dict[str, str], tuple[Mark, ...]]:
    """The program's files as they are judged, and what is marked in them."""
    files: dict[str, str] = {}
    marks: list[Mark] = []
    for name, lines in texts.items():
        kept: list[str] = []
        for line in lines:
            before, mark, _ = line.partition("# !")
            if not mark:
                kept.append(line)
                continue
            kept.append(before.rstrip())
            text = line[len(before) :]
            if _MARK.sub("", text).strip():
                raise part.bad(f"case {part.name}: not `# !CODE severity: text` but `{text}`")
            for each in _MARK.finditer(text):
                said = tuple(each["said"].split(" ... ")) if each["said"] else ()
                severity = each["severity"] or "error"
                marks.append(Mark(name, len(kept), each["code"], severity, each["subject"], said))
        files[name] = "\n".join(kept).rstrip("\n") + "\n"
    return files, tuple(marks)
