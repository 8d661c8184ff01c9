"""Processes per host against the accelerators of the host."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
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
