"""Obsolete variables, and debugging variables in a normal run."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.torch_version import torch_version
from launcher.rules.job.subject import JobSubject
from launcher.rules.variables import debugging, is_only_verbose, obsolete


@finds(Stage.SPEC, nccl.OBSOLETE_ENVIRONMENT)
def no_obsolete_environment(subject: JobSubject) -> Iterator[Finding]:
    """Variables that no longer do anything, or do something else than their author believed."""
    for variable in subject.variables():
        harm = obsolete(variable.name, variable.value, torch_version(subject.job))
        if harm:
            yield nccl.OBSOLETE_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value}: {harm}",
            )


@finds(Stage.SPEC, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_a_normal_run(subject: JobSubject) -> Iterator[Finding]:
    """What makes a run slow for as long as it stays; `profile: debug` asks for it openly."""
    if subject.job.profile == "debug":
        return
    for variable in subject.variables():
        harm = debugging(variable.name, variable.value)
        if harm:
            yield nccl.DEBUGGING_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value} in a normal run {harm}",
                severity=Severity.INFO if is_only_verbose(variable.name, variable.value) else None,
            )
