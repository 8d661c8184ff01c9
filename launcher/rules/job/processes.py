"""Processes per host against the accelerators of the host."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
from launcher.planning.cost import cost_of_a_part
from launcher.planning.strategies.programs import SHELL
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def one_process_per_accelerator(subject: JobSubject) -> Iterator[Finding]:
    """Fewer processes than accelerators leave some idle and can end in network timeouts.

    More of them than there are devices is DIST003, which the plan finds.
    """
    given = subject.job.distribution.processes_per_host
    if given is None or subject.facts is None:
        return
    if subject.job.distribution.strategy is Strategy.NONE:
        expected, owner = 1, "the strategy none starts one process per host"
    elif subject.facts.accelerators:
        expected = subject.facts.processes_per_host
        if given > expected:
            return
        owner = f"{subject.facts.instance_type} has {expected} accelerators per host"
    else:
        return
    if given != expected:
        yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
            ("distribution", "processes_per_host"),
            f"processes_per_host is {given}, but {owner}",
            remedy=f"Leave `processes_per_host` out, or set it to {expected}.",
        )


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def no_accelerators_idle_without_a_launcher(subject: JobSubject) -> Iterator[Finding]:
    """One Python process per host, which is also what no `distribution` means, uses one accelerator.

    Unless it starts others or spreads itself over them, which cannot be seen: so a warning, and none for a
    shell script, which starts its ranks itself, nor where the one process was asked for.
    """
    facts, job = subject.facts, subject.job
    if (
        job.distribution.strategy is not Strategy.NONE
        or job.distribution.processes_per_host is not None
        or facts is None
        or facts.processes_per_host == 1
        or subject.here
        or (job.code.entry_point or "").endswith(SHELL)
    ):
        return
    total = facts.processes_per_host * job.resources.instance_count
    idle = total - job.resources.instance_count
    devices = "GPUs" if facts.has_gpus else "NeuronCores"
    view = subject.plan.view
    cost = cost_of_a_part(view, subject.plan.region, idle / total) if view else None
    given = "distribution" in job.model_fields_set
    yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
        ("distribution", "strategy") if given else ("resources", "instance_type"),
        f"{'the strategy none' if given else 'a job without `distribution`'} starts one process per host: "
        f"{idle} of the {total} {devices} {'stands' if idle == 1 else 'stand'} idle "
        "unless the script spreads itself over them" + (f", and cost {cost}" if cost else ""),
        remedy="Set `distribution: {strategy: torchrun}`, which starts a process for each of them, or choose "
        "a type with one. Where the script uses all of them itself, say so with "
        "`distribution: {processes_per_host: 1}`.",
        severity=Severity.WARNING,
    )
