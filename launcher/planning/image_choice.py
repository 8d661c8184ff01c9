"""The image of a job: the user's own, or the AWS deep learning container that its strategy needs."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.images import ImageUnavailableError, image_release, image_versions, training_image
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
        table = TENSORFLOW if wanted.name == TENSORFLOW else strategy.image(facts)
        _check_accelerator(table, wanted.version, facts)
        image = training_image(
            table,
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


def _check_accelerator(framework: str, version: str, facts: InstanceFacts | None) -> None:
    """Raise ImageUnavailableError where an image for Neuron devices is from before this one."""
    release = image_release(framework, version)
    if facts is None or release is None:
        return
    if not _is_for(framework, version, facts.accelerator):
        able = [other for other in image_versions(framework) if _is_for(framework, other, facts.accelerator)]
        raise ImageUnavailableError(
            f"the {framework} {release.version} training image is not for {facts.accelerator}",
            f"Use {' or '.join(able)}." if able else "Give `image` explicitly.",
        )


def _is_for(framework: str, version: str, accelerator: str | None) -> bool:
    release = image_release(framework, version)
    return release is not None and (release.accelerators is None or accelerator in release.accelerators)


def _processor(facts: InstanceFacts | None) -> str:
    """The image table's word; an unknown instance type counts as one with GPUs."""
    if facts is None or facts.has_gpus:
        return "gpu"
    return "neuron" if facts.accelerator_kind == "neuron" else "cpu"
