"""Frames of a Python stack, wherever they were written down: which of them are the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CodeFrame(NamedTuple):
    """A line of a stack: its file as written, the number from 1, and the function."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """Such as `train.py:88 in step`."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line} in {self.function}"


_OF_LIBRARIES = (
    "site-packages/",
    "dist-packages/",
    "/lib/python3",
    "/lib64/python3",
    "<frozen ",
    "<__array_function__",
    "slipway.pyz/",
    "/slipway/ranks/",
    "torch/",
)
_SAVERS = ("save", "_save", "state_dict", "_state_dict")


def users_frame(frames: Sequence[CodeFrame]) -> CodeFrame | None:
    """The innermost frame that is of no library; `frames` begin with the innermost."""
    return next((frame for frame in frames if is_users(frame)), None)


def is_users(frame: CodeFrame) -> bool:
    """Whether a frame is of the user's code: its file lies in no place of Python's or of packages."""
    file = frame.file.replace("\\", "/")
    if not file.endswith((".py", ".ipynb")) and not file.startswith("/"):
        return False
    return not any(part in file if part != "torch/" else file.startswith(part) for part in _OF_LIBRARIES)


def is_saving(frames: Sequence[CodeFrame]) -> bool:
    """Whether something is being saved, by the names of functions or PyTorch's distributed checkpoint."""
    for frame in frames:
        if "torch/distributed/checkpoint/" in frame.file or "state_dict" in frame.function:
            return True
        if "/torch/" not in frame.file and (frame.function.startswith(_SAVERS) or "_save" in frame.function):
            return True
    return False
