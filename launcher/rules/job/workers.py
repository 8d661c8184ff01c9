"""DataLoader workers against the CPUs of the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Path, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject

_NAMES = frozenset(
    {
        "workers",
        "num_workers",
        "n_workers",
        "nworkers",
        "data_workers",
        "loader_workers",
        "dataloader_workers",
        "dataloader_num_workers",
        "num_data_workers",
        "train_num_workers",
    }
)
"""The names by which training scripts take the workers of each process's DataLoader."""


@finds(Stage.SPEC, data.TOO_MANY_WORKERS)
def workers_have_their_cpus(subject: JobSubject) -> Iterator[Finding]:
    """Where the job file gives the script a number of workers, by hyperparameter or argument."""
    processes = subject.plan.processes_per_host
    if subject.facts is None or processes is None:
        return
    cpus = max(1, subject.facts.vcpus // processes)
    for name, workers, path in _given(subject):
        if workers > cpus:
            yield data.TOO_MANY_WORKERS.at(
                path,
                f"{name} is {workers} for each process: {processes} processes make {workers * processes} "
                f"workers on the {subject.facts.vcpus} vCPUs of {subject.facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs for each process, less one for itself.",
            )


def _given(subject: JobSubject) -> Iterator[tuple[str, int, Path]]:
    for name, value in subject.job.hyperparameters.items():
        yield from _counted(name, value, ("hyperparameters", name))
    arguments = subject.job.code.arguments
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if equals:
            yield from _counted(name, value, ("code", "arguments", index))
        elif argument.startswith("-") and index + 1 < len(arguments):
            yield from _counted(name, arguments[index + 1], ("code", "arguments", index))


def _counted(name: str, value: Any, path: Path) -> Iterator[tuple[str, int, Path]]:
    text = str(value).strip()
    if name.lstrip("-").replace("-", "_").lower() in _NAMES and text.isdecimal():
        yield name.lstrip("-"), int(text), path
