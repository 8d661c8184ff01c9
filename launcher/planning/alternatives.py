"""The instance types that a retry may try: each must be able to run the job, or the retry is pointless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.cluster.instances import instance_facts
from launcher.failure_modes.model import Finding, dotted
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import choose_image
from launcher.planning.strategies.strategy import LaunchStrategy


def job_on(job: JobSpec, instance_type: str) -> JobSpec:
    """The same job on another instance type, with no others to try."""
    alone = {"instance_type": instance_type, "instance_types": [], "instance_choice": "launcher"}
    resources = job.resources.model_copy(update=alone)
    return job.model_copy(update={"resources": resources})


def check_alternatives(
    job: JobSpec, strategy: LaunchStrategy, region: str, known: Sequence[Finding]
) -> Iterator[Finding]:
    """What keeps the job from running on its other instance types, at each type's place in the job file.

    What was found for its own type (`known`) is not said again.
    """
    said = {(found.code, found.message) for found in known}
    for index, instance_type in enumerate(job.resources.instance_types):
        other, facts = job_on(job, instance_type), instance_facts(instance_type)
        processes = strategy.processes_per_host(other, facts)
        _, no_image = choose_image(other, facts, strategy, region)
        path = ("resources", "instance_types", index)
        for found in (*strategy.supported(other, facts, processes), *no_image):
            if (found.code, found.message) not in said:
                message = f"on {instance_type}, another instance type of this job: {found.message}"
                yield replace(found, message=message, path=path, subject=dotted(path))
