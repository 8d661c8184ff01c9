"""All rules on a script, in the order in which their findings are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.failure_modes.registry import REGISTRY, finds
from launcher.rules.script import (
    backends,
    checkpoints,
    data,
    ddp,
    devices,
    environment,
    forward,
    gradients,
    kept,
    loading,
    memory,
    no_sync,
    options,
    reduction,
    state_keys,
    steps,
    topology,
    with_job,
    xla,
)
from launcher.rules.script.collectives import (
    collectives_are_run_by_every_rank,
    no_collectives_in_exception_handlers,
)
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.program import Program, Unread
from launcher.scripts.reach import Reach

RULES: tuple[Callable[[Program], Iterator[Finding]], ...] = (
    collectives_are_run_by_every_rank,
    no_collectives_in_exception_handlers,
    *environment.RULES,
    *topology.RULES,
    *backends.RULES,
    *devices.RULES,
    *loading.RULES,
    *options.RULES,
    *data.RULES,
    *ddp.RULES,
    *forward.RULES,
    *steps.RULES,
    *gradients.RULES,
    *no_sync.RULES,
    *reduction.RULES,
    *checkpoints.RULES,
    *xla.RULES,
    *memory.RULES,
    *state_keys.RULES,
)

ALONE = (*options.RULES, checkpoints.keys_are_not_cut_by_partition, checkpoints.uploads_are_looked_at)
"""The rules that hold for a program of one process as well."""

OF_SEVERAL_HOSTS = frozenset({"DIST006", "DIST007", "NCCL009"})
"""What goes wrong on several hosts, or beside a second job: informational in a test, which runs on one."""

JOB_RULES: tuple[Callable[[ScriptSubject], Iterator[Finding]], ...] = (
    *data.JOB_RULES,
    *kept.JOB_RULES,
    *with_job.JOB_RULES,
)
"""The rules that judge script and job together; without a job they are silent."""


def check_program(program: Program) -> list[Finding]:
    """The findings of every rule on the program alone, in the order of RULES; then what could not be read."""
    try:
        reach = program.reach
        rules = ALONE if reach.is_alone else RULES
        findings = [each for rule in rules for each in rule(program) if _is_come_to(reach, each)]
    except RecursionError:
        entry = Unread(program.entry.path, "its expressions are nested too deeply to be followed")
        return [unread_finding(entry, imported=False)]
    told = _once_a_place(findings)
    if _is_a_test(program):
        told = [_as_information(each) if each.code in OF_SEVERAL_HOSTS else each for each in told]
    return [*told, *(unread_finding(each, imported=True) for each in program.unread)]


def _as_information(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO)


def _is_a_test(program: Program) -> bool:
    """Whether a script is a test, by the names that test runners look for, or that of a folder near it.

    Folders above the program's root say nothing of it: a checkout may lie anywhere.
    """
    inside = Path(os.path.relpath(program.entry.path, program.root))
    named = inside.stem.startswith("test_") or inside.stem.endswith("_test")
    return named or not {"test", "tests"}.isdisjoint(inside.parts[-4:-1])


def _is_come_to(reach: Reach, finding: Finding) -> bool:
    """Whether the program runs what a finding is about."""
    place = finding.location
    return place is None or place.line is None or reach.holds_line(place.file, place.line)


def _once_a_place(findings: Iterable[Finding]) -> list[Finding]:
    """Without what a later rule says of the same mode at the same place."""
    first: dict[object, Finding] = {}
    for each in findings:
        place = each.location
        key = id(each) if place is None else (each.code, place.file, place.line, place.column)
        first.setdefault(key, each)
    return list(first.values())


def check_script(subject: ScriptSubject) -> list[Finding]:
    """The findings of every rule on a program and the job that starts it."""
    findings = check_program(subject.program)
    return [*findings, *(finding for rule in JOB_RULES for finding in rule(subject))]


def codes_found(with_job: bool) -> frozenset[str]:
    """The codes whose findings are complete: without a job not those that a rule needs one for."""
    by_rules = _codes(RULES)
    by_job_rules = _codes(JOB_RULES)
    return by_rules | by_job_rules if with_job else by_rules - by_job_rules


def _codes(rules: Iterable[Callable[..., object]]) -> frozenset[str]:
    listed = set(rules)
    return frozenset(mode.code for each in REGISTRY if each.function in listed for mode in each.modes)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def unfinished_finding(path: Path, seconds: float) -> Finding:
    """A script whose program takes too long to judge, so that nothing is said of it. A warning."""
    return training_script.SCRIPT_RAISED.finding(
        Stage.SCRIPT,
        f"not judged: after {seconds:g} s of computing the rules were not done with it",
        remedy="Split it where it is that long. Where it was generated, leave it out (`exclude`).",
        severity=Severity.WARNING,
        location=Location(str(path), 1, 1),
        subject=path.name,
    )


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def unread_finding(unread: Unread, *, imported: bool) -> Finding:
    """A file that this Python cannot read: nothing in it was judged.

    An error for a script itself. One that is only imported may be meant for another version, or be imported
    where its ImportError is caught.

    Bad: `print "epoch", 1`, which is Python 2. Good: `print("epoch", 1)`.

    Source: Python's grammar, in the version that runs `launch`.
    """
    return training_script.SCRIPT_RAISED.finding(
        Stage.SCRIPT,
        f"not judged: {unread.reason}",
        remedy=(
            "Every rank would end with this error when it is imported. Where it is meant for another version "
            "of Python, run `launch` with that one; where it is no program, leave it out (`exclude`)."
        ),
        severity=Severity.WARNING if imported else Severity.ERROR,
        location=Location(str(unread.path), max(1, unread.line), max(1, unread.column)),
        subject=Path(unread.path).name,
    )
