"""How this package speaks up: what a script's call into it raises, and lines beside what the script prints.

Everything that scripts call imports it, so it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import sys


def say(text: object) -> None:
    """Print a line of this package's own on stderr; nobody may be left to read it."""
    with contextlib.suppress(OSError, ValueError):
        print(f"slipway: {text}", file=sys.stderr, flush=True)


class SlipwayError(RuntimeError):
    """What is wrong, what would have happened and what to do, after the failure mode's code.

    Its full name, as a traceback prints it, is `slipway.SlipwayError`: the boot knows it by that.
    """

    __module__ = "slipway"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[SlipwayError], tuple[str, str]]:
        return type(self), (self.code, self.message)


class CheckpointError(SlipwayError):
    """What is wrong with a checkpoint, what would have happened, what to do: a failure mode's code first.

    A traceback prints it as `slipway.CheckpointError`.
    """

    __module__ = "slipway"


def failed_write_error(error: OSError, step: int) -> CheckpointError:
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
