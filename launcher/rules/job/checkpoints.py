"""Checkpoints: whether there are any, and whether their place fits the model."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import checkpoints, job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.start import is_booted
from launcher.rules.job.subject import JobSubject

LARGE_MODEL_PARAMETERS = 10e9
"""Beyond this AWS recommends FSx for Lustre for checkpoints (developer guide,
distributed-troubleshooting-model-parallel)."""


@finds(Stage.SPEC, checkpoints.LARGE_MODEL_WITHOUT_LUSTRE)
def large_checkpoints_go_to_lustre(subject: JobSubject) -> Iterator[Finding]:
    """The checkpoint of a large model keeps the accelerators waiting on its way to S3."""
    model, checkpoint = subject.job.model, subject.job.checkpoint
    on_lustre = checkpoint is not None and checkpoint.lustre is not None
    if on_lustre or subject.writes_to_lustre:
        return
    if model is None or model.parameters <= LARGE_MODEL_PARAMETERS:
        return
    low, high = (model.parameters * size / 1e9 for size in (12, 16))
    yield checkpoints.LARGE_MODEL_WITHOUT_LUSTRE.finding(
        Stage.SPEC,
        f"{model.parameters / 1e9:g} billion parameters make a checkpoint of {low:,.0f} to {high:,.0f} GB "
        "(12 to 16 bytes each), and it is not written to FSx for Lustre: saving keeps all ranks waiting, "
        "and the upload to S3 may fail",
        remedy="Put them on the cluster's file system, `checkpoint: {lustre: /checkpoints}`, and save there, "
        "sharded, with torch.distributed.checkpoint.",
        location=subject.locate("checkpoint") if checkpoint else subject.locate("model", "parameters"),
        subject="checkpoint",
    )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def checkpoint_directory_is_made(subject: JobSubject) -> Iterator[Finding]:
    """On Lustre each job has a directory of its own, which the boot makes, but no other launcher."""
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.lustre is not None and not is_booted(subject.job):
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            f"the directory for checkpoints below {checkpoint.lustre} does not exist when the script starts: "
            "the images' toolkit, which starts it, makes none",
            remedy="Let the script make it before it saves: "
            'os.makedirs(os.environ["SLIPWAY_CHECKPOINT_DIR"], exist_ok=True).',
            severity=Severity.WARNING,
            location=subject.locate("checkpoint", "lustre"),
            subject="checkpoint.lustre",
        )


@finds(Stage.SPEC, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_has_a_checkpoint(subject: JobSubject) -> Iterator[Finding]:
    """Spot interruptions and retries start the script anew."""
    if subject.keeps_checkpoints:
        return
    restarts = []
    if subject.job.resources.capacity.kind == "spot":
        restarts.append(("resources", "capacity", "`capacity: spot` may be interrupted at any time"))
    if subject.job.limits.max_retries:
        retries = subject.job.limits.max_retries
        restarts.append(("limits", "max_retries", f"`max_retries: {retries}` starts the script again"))
    for section, field, why in restarts:
        yield checkpoints.NOTHING_TO_RESUME_FROM.finding(
            Stage.SPEC,
            f"{why}, and no checkpoint is configured: all work until then would be lost and paid for twice",
            location=subject.locate(section, field),
            subject=f"{section}.{field}",
        )
