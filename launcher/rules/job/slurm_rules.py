"""Rules on a job that is to run on Slurm: what SageMaker would do for it, and Slurm does not."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import distribution, job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject, RunPlace


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def inputs_are_in_folders(subject: JobSubject) -> Iterator[Finding]:
    """Each input has to lie in a folder that the nodes see: nobody copies it from S3 to them."""
    section = subject.job.slurm
    if subject.place is not RunPlace.SLURM or section is None:
        return
    for name in subject.job.inputs:
        if name not in section.inputs:
            yield job_file.INVALID_VALUE.at(
                ("inputs", name),
                f"the input {name} has no folder on Slurm's nodes: nothing copies it there, and the script "
                "would not find it",
                remedy=f"Give a folder that all nodes see: `slurm: {{inputs: {{{name}: /FOLDER}}}}`, or "
                f"--input {name}=/FOLDER.",
            )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def boot_starts_the_script(subject: JobSubject) -> Iterator[Finding]:
    """The strategies that AWS's toolkit starts need its images and SageMaker's network of hosts."""
    strategy = subject.job.distribution.strategy
    if subject.place is RunPlace.SLURM and not subject.plan.with_boot:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("distribution", "strategy"),
            f"{strategy} is started by the training toolkit of AWS's images, which is not on Slurm's nodes",
            remedy="Use torchrun, or none where the script starts its processes itself.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def nothing_is_asked_of_sagemaker(subject: JobSubject) -> Iterator[Finding]:
    """Tuning jobs are SageMaker's, and so are checkpoints on S3 that nobody copies there."""
    if subject.place is not RunPlace.SLURM:
        return
    job = subject.job
    if job.tuning is not None:
        yield job_file.INVALID_VALUE.at(
            ("tuning",),
            "a tuning job is SageMaker's own: on Slurm nobody chooses the next hyperparameters",
            remedy="Leave `tuning` out, and give values in `hyperparameters`.",
        )
    origin = job.checkpoint.resume_from if job.checkpoint else None
    on_s3 = job.checkpoint is not None and job.checkpoint.s3_uri is not None
    if origin is not None and origin.startswith("s3://") and not on_s3:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "resume_from"),
            f"{origin} is on S3, and a run on Slurm that keeps no checkpoints there goes on from another one "
            "of the same shared folder",
            remedy="Give the name of that run, which `launch list --slurm` has; or have this one's "
            "checkpoints on S3 as well: `s3_uri` and `sync: slipway`.",
        )
