"""The image of a job: the user's own, or the AWS deep learning container that its strategy needs."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.images import ImageUnavailableError, training_image
from launcher.planning.strategies.strategy import TENSORFLOW, LaunchStrategy


@finds(Stage.SPEC, job_runtime.IMAGE_UNAVAILABLE)
def choose_image(
    job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy, region: str
) -> tuple[str | None, list[Finding]]:
    """The URI of the image, or None and the finding that says why none fits.

    The user's own image is taken as it is: nothing is known of it here.
    """
    if job.image is not None or job.framework is None:
        return job.image, []
    wanted = job.framework
    try:
        if facts is not None and facts.accelerator_kind == "neuron" and facts.accelerator != "Trainium":
            raise ImageUnavailableError(
                f"no {wanted.name} image for {facts.accelerator} is in the table",
                "Give `image` explicitly.",
            )
        image = training_image(
            TENSORFLOW if wanted.name == TENSORFLOW else strategy.image(facts),
            wanted.version,
            wanted.python,
            region,
            _processor(facts),
            job.resources.instance_type,
        )
        return image, []
    except ImageUnavailableError as error:
        no_image = job_runtime.IMAGE_UNAVAILABLE.at(
            ("framework", "version"), error.message, remedy=error.remedy
        )
        return None, [no_image]


def _processor(facts: InstanceFacts | None) -> str:
    """The image table's word; an unknown instance type counts as one with GPUs."""
    if facts is None or facts.has_gpus:
        return "gpu"
    return "neuron" if facts.accelerator_kind == "neuron" else "cpu"
