"""Which PyTorch a job runs, where the job file says it: by its framework or by its image's tag."""

from __future__ import annotations

import re

from launcher.jobs.specification import JobSpec
from launcher.planning.aws_image import FRAMEWORK_OF


def torch_version(job: JobSpec) -> tuple[int, int] | None:
    """Major and minor version of PyTorch, such as (2, 8); None where an own image hides it.

    An image in a repository that is called as one of AWS's is taken for a copy of it, whoever's registry it
    is in.
    """
    if job.framework is not None:
        return _numbers(job.framework.version) if job.framework.name == "pytorch" else None
    repository, _, tag = (job.image or "").rpartition("/")[2].partition(":")
    return _numbers(tag) if FRAMEWORK_OF.get(repository, "").startswith("pytorch") else None


def _numbers(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
