"""The one way in which checkpoints report that something cannot be done."""

from __future__ import annotations

from slipway.errors import SlipwayError


class CheckpointError(SlipwayError):
    """What is wrong with a checkpoint, what would have happened, what to do: a failure mode's code first.

    A traceback prints it as `slipway.CheckpointError`.
    """

    __module__ = "slipway"


def of_failed_write(error: OSError, step: int) -> CheckpointError:
    """What a write that failed means: DISK001 for a full disk, CKPT004 for every other reason."""
    import errno

    where = f" ({error.filename})" if error.filename else ""
    what = f"the checkpoint of step {step} could not be written: {error.strerror or error}{where}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CheckpointError(
            "DISK001",
            f"{what}. Without room no later one can be either. Keep fewer checkpoints (keep=), or give the "
            "job a larger volume or a file system",
        )
    return CheckpointError(
        "CKPT004",
        f"{what}. What was trained since the one before would be lost with the job. Look at the folder's "
        "permissions and at the file system below it",
    )
