"""The workers that a script starts, against the CPUs of the job's hosts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Related, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.declared_options import default_of_option, is_given
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import loaders_of
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.arguments import constant, is_open


@finds(Stage.SCRIPT, data.TOO_MANY_WORKERS)
def workers_have_cpus(subject: ScriptSubject) -> Iterator[Finding]:
    """More workers in a DataLoader than the host has vCPUs for each process, by literal or default.

    Each process starts as many, and they take time and memory from each other and from the training. What the
    job file gives the script is judged there.

    Bad: `DataLoader(dataset, num_workers=16)` on an ml.p4d.24xlarge with 96 vCPUs and 8 processes
    Good: `DataLoader(dataset, num_workers=11)`

    Source: torch.utils.data documentation; EC2's vCPUs of the instance type.
    """
    processes = subject.plan.processes_per_host
    facts = instance_facts(subject.job.resources.instance_type)
    if facts is None or processes is None:
        return
    program = subject.program
    cpus = max(1, facts.vcpus // processes)
    loaders = loaders_of(program)
    for loader in loaders.calls:
        given = loaders.given(loader, "num_workers")
        if given is None or is_open(loader):
            continue
        literal = constant(program, given)
        workers: object = None if literal is None else literal.value
        related: list[Related] = []
        if literal is None:
            option = default_of_option(program, given)
            if option is None or is_given(subject.job, option.name):
                continue
            workers = option.value
            related = [note(option.call, "its default")]
        if isinstance(workers, int) and not isinstance(workers, bool) and workers > cpus:
            yield found(
                data.TOO_MANY_WORKERS,
                given,
                f"{workers} workers in each of {processes} processes make {workers * processes} on the "
                f"{facts.vcpus} vCPUs of {facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs a process, less one.",
                related=related,
            )
