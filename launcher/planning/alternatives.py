"""The instance types that a retry may try: each must be able to run the job, or the retry is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.cluster.instances import instance_facts
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import choose_image
from launcher.planning.strategies.strategy import LaunchStrategy, Objection


def job_on(job: JobSpec, instance_type: str) -> JobSpec:
    """The same job on another instance type, with no further ones."""
    resources = job.resources.model_copy(update={"instance_type": instance_type, "instance_types": []})
    return job.model_copy(update={"resources": resources})


def objections_to_alternatives(
    job: JobSpec, strategy: LaunchStrategy, region: str, known: Sequence[Objection]
) -> Iterator[Objection]:
    """What keeps the job from running on its further types, at each type's place in the job file.

    What was objected to on its own type (`known`) is not said again.
    """
    for index, instance_type in enumerate(job.resources.instance_types):
        other, facts = job_on(job, instance_type), instance_facts(instance_type)
        processes = strategy.processes_per_host(other, facts)
        _, no_image = choose_image(other, facts, strategy, region)
        said = {(objection.mode.code, objection.message) for objection in known}
        for objection in (*strategy.supported(other, facts, processes), *no_image):
            if (objection.mode.code, objection.message) not in said:
                yield replace(
                    objection,
                    message=f"on {instance_type}, a further type of this job: {objection.message}",
                    path=("resources", "instance_types", index),
                )
