"""The one way in which checkpoints report that something cannot be done."""

from __future__ import annotations


class CheckpointError(RuntimeError):
    """What is wrong with a checkpoint, what would have happened, what to do: a failure mode's code first.

    Its full name, as a traceback prints it, is `slipway.CheckpointError`: the boot and `launch diagnose`
    know it by that.
    """

    __module__ = "slipway"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[CheckpointError], tuple[str, str]]:
        return CheckpointError, (self.code, self.message)


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
