"""DataLoader workers against the CPUs of the host."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.given_numbers import WORKER_NAMES, given_numbers
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, data.TOO_MANY_WORKERS)
def workers_have_their_cpus(subject: JobSubject) -> Iterator[Finding]:
    """Where the job file gives the script a number of workers, by hyperparameter or argument."""
    processes = subject.plan.processes_per_host
    if subject.facts is None or processes is None:
        return
    cpus = max(1, subject.facts.vcpus // processes)
    for given in given_numbers(subject.job.hyperparameters, subject.job.code.arguments):
        if given.plain_name in WORKER_NAMES and given.value > cpus:
            yield data.TOO_MANY_WORKERS.at(
                given.path,
                f"{given.name} is {given.value} for each process: {processes} processes make "
                f"{given.value * processes} workers on the {subject.facts.vcpus} vCPUs of "
                f"{subject.facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs for each process, less one for itself.",
            )
