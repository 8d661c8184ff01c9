"""Which PyTorch a job runs, where the job file says it: by its framework or by its image's tag."""

from __future__ import annotations

import re

from launcher.jobs.specification import JobSpec

# The repositories of AWS whose tags begin with the version of PyTorch.
_TAGGED_BY_TORCH = re.compile(
    r"/(?:pytorch|(?:huggingface-)?pytorch-(?:trcomp-)?training(?:-neuronx?)?|smdistributed-modelparallel)"
    r":(\d+)\.(\d+)"
)


def torch_version(job: JobSpec) -> tuple[int, int] | None:
    """Major and minor version of PyTorch, such as (2, 8); None where an own image hides it."""
    if job.framework is not None:
        found = re.match(r"(\d+)\.(\d+)", job.framework.version if job.framework.name == "pytorch" else "")
    else:
        found = _TAGGED_BY_TORCH.search(job.image or "")
    return (int(found[1]), int(found[2])) if found else None
