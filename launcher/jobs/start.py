"""Who starts a job's script in its container."""

from __future__ import annotations

from launcher.jobs.specification import JobSpec, Strategy


def is_booted(job: JobSpec) -> bool:
    """Whether the boot starts the script, and not the training toolkit of the image.

    A tuning job's API takes no command for the container, so the boot never starts there.
    """
    if job.tuning is not None:
        return False
    if job.distribution.strategy is Strategy.SMP:
        return str(job.distribution.options.get("version", 2)) != "1"
    return job.distribution.strategy in (Strategy.TORCHRUN, Strategy.NONE)
