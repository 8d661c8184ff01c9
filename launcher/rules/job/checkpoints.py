"""Checkpoints: whether there are any, who moves them, and whether their place fits the model and the job."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import checkpoints, job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.checkpoint import CHECKPOINT_DIR_VARIABLE, CHECKPOINT_URI_VARIABLE
from launcher.rules.job.subject import JobSubject

LARGE_MODEL_PARAMETERS = 10e9
"""Beyond this AWS recommends FSx for Lustre for checkpoints (developer guide,
distributed-troubleshooting-model-parallel)."""


@finds(Stage.SPEC, checkpoints.LARGE_MODEL_WITHOUT_LUSTRE)
def large_checkpoints_go_to_lustre(subject: JobSubject) -> Iterator[Finding]:
    """The checkpoint of a large model keeps the accelerators waiting on its way to S3."""
    model, planned = subject.job.model, subject.plan.checkpoints
    if model is None or model.parameters <= LARGE_MODEL_PARAMETERS:
        return
    if subject.writes_to_lustre or (planned is not None and planned.lustre is not None):
        return
    low, high = (model.parameters * size / 1e9 for size in (12, 16))
    yield checkpoints.LARGE_MODEL_WITHOUT_LUSTRE.at(
        ("checkpoint",) if subject.job.checkpoint else ("model", "parameters"),
        f"{model.parameters / 1e9:g} billion parameters make a checkpoint of {low:,.0f} to {high:,.0f} GB "
        "(12 to 16 bytes each), and it is not written to FSx for Lustre: saving keeps all ranks waiting, "
        "and the upload to S3 may fail",
        remedy="Put them on the cluster's file system, `checkpoint: {lustre: /checkpoints}`, and save there, "
        "sharded, with torch.distributed.checkpoint.",
        subject="checkpoint",
    )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def checkpoint_directory_is_made(subject: JobSubject) -> Iterator[Finding]:
    """On Lustre each job has a directory of its own, which the boot makes, but no other launcher."""
    planned = subject.plan.checkpoints
    if planned is not None and planned.lustre is not None and not subject.plan.with_boot:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "lustre"),
            f"the directory for checkpoints below {planned.lustre} does not exist when the script starts: "
            "the images' toolkit, which starts it, does not create it",
            remedy="Let the script make it before it saves: "
            f'os.makedirs(os.environ["{CHECKPOINT_DIR_VARIABLE}"], exist_ok=True).',
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_has_a_checkpoint(subject: JobSubject) -> Iterator[Finding]:
    """Spot interruptions and retries start the script from the beginning."""
    if subject.plan.checkpoints is not None or subject.writes_to_lustre:
        return
    restarts = []
    if subject.job.resources.capacity.kind == "spot":
        restarts.append(("resources", "capacity", "`capacity: spot` may be interrupted at any time"))
    if subject.job.limits.max_retries:
        retries = subject.job.limits.max_retries
        restarts.append(("limits", "max_retries", f"`max_retries: {retries}` starts the script again"))
    for section, field, why in restarts:
        yield checkpoints.NOTHING_TO_RESUME_FROM.at(
            (section, field),
            f"{why}, and no checkpoint is configured: all work until then would be lost and paid for twice",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def own_sync_is_in_the_script(subject: JobSubject) -> Iterator[Finding]:
    """With `sync: slipway` the boot copies checkpoints; where it starts nothing, the script has to."""
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.sync == "slipway" and not subject.plan.with_boot:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "sync"),
            "checkpoint.sync: slipway takes checkpoints out of the service's hands, and the images' toolkit, "
            "which starts this strategy, copies none: what the script itself does not upload to the prefix "
            f"in {CHECKPOINT_URI_VARIABLE} is lost with the hosts",
            remedy="Leave `sync` out, use torchrun, smp version 2 or none, or let the script upload there "
            "and check every result.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def training_jobs_share_no_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """All training jobs are made from one request, with one place for checkpoints.

    SageMaker's developer guide (model-checkpoints) mentions no part that the service adds to the prefix.
    """
    job = subject.job
    if job.tuning is None:
        return
    if job.checkpoint is not None:
        place = "directory" if job.checkpoint.lustre is not None else "prefix"
        yield checkpoints.PREFIX_NOT_UNIQUE.at(
            ("checkpoint",),
            f"all {job.tuning.jobs} training jobs would have one {place} for checkpoints: each would "
            "start from what another has saved with other hyperparameters, and overwrite it",
            remedy="Remove `checkpoint`. A script that keeps the jobs apart by itself, by the name in "
            "TRAINING_JOB_NAME, may accept it with `ignore: [CKPT001]`.",
        )
    elif job.cluster is not None:
        yield checkpoints.PREFIX_NOT_UNIQUE.at(
            ("tuning",),
            "checkpoints are off: all training jobs of a tuning job would have the same prefix in the "
            "cluster's bucket",
            remedy="Keep the training jobs short; each begins from the start when it is interrupted.",
            severity=Severity.INFO,
        )
