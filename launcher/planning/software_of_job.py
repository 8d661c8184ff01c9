"""What the image of a job holds, where it is one of AWS's."""

from __future__ import annotations

from packaging.version import Version

from launcher.cluster.instances import InstanceFacts
from launcher.jobs.specification import JobSpec
from launcher.planning.aws_image import aws_image
from launcher.planning.image_software import ImageSoftware, image_software
from launcher.planning.images import ImageUnavailableError
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import TENSORFLOW


def software_of(job: JobSpec, facts: InstanceFacts | None) -> ImageSoftware | None:
    """The software of the image that the job names, or that its framework and strategy lead to.

    None for an image of the user's own, and for one that the table does not know.
    """
    if job.image is not None:
        named = aws_image(job.image)
        return image_software(named.framework, named.version) if named is not None else None
    if job.framework is None:
        return None
    try:
        table = TENSORFLOW if job.framework.name == TENSORFLOW else strategy_of(job).image(facts)
    except ImageUnavailableError:
        return None
    return image_software(table, job.framework.version)


def plugin_of(software: ImageSoftware | None) -> Version | None:
    """The version of the aws-ofi-nccl plugin in an image; None where nobody knows it."""
    return Version(software.efa_plugin) if software and software.efa_plugin else None
