"""What a training script's own call into this package raises where a failure mode is the reason."""

from __future__ import annotations


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
