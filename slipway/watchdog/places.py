"""Where a stack of frames is: the user's own lines of it, and what the frames of libraries tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from slipway.watchdog.views import UserLine


class StackFrame(NamedTuple):
    """A frame of a stack, of anybody's code."""

    file: str
    number: int
    function: str


_DEEPEST = 12
"""Lines of the user's that are kept, the innermost."""

_WAITING = (
    ("torch/distributed/distributed_c10d.py", None),
    ("torch/distributed/_functional_collectives.py", None),
    ("torch/autograd/graph.py", "_engine_run_backward"),
    ("torch/autograd/__init__.py", "backward"),
    ("torch/cuda/__init__.py", "synchronize"),
    ("torch/cuda/streams.py", "synchronize"),
)
"""Where a rank stands while it waits for others: the file's end, and the function where it matters."""

_SAVERS = ("save", "_save", "state_dict", "_state_dict")


def user_lines(frames: Sequence[StackFrame], code: str) -> tuple[UserLine, ...]:
    """The lines of files below the user's code, the innermost last; `frames` are in the same order."""
    found = [
        UserLine(str(PurePath(file).relative_to(code)), number, function)
        for file, number, function in frames
        if file.startswith(f"{code}/")
    ]
    return tuple(found[-_DEEPEST:])


def is_saving(frames: Sequence[StackFrame]) -> bool:
    """Whether something is being saved: a state_dict is made, PyTorch's distributed checkpoint works, or a
    function of the user's or of a library has a name that says so."""
    for file, _, function in frames:
        if "torch/distributed/checkpoint/" in file or "state_dict" in function:
            return True
        if "/torch/" not in file and (function.startswith(_SAVERS) or "_save" in function):
            return True
    return False


def waits_inside(frames: Sequence[StackFrame]) -> bool:
    """Whether the innermost frame is one in which a rank waits for others."""
    if not frames:
        return False
    file, _, function = frames[-1]
    # A decorator of PyTorch lies around its collectives (torch/distributed/c10d_logger.py).
    return any(file.endswith(end) and name in (None, function) for end, name in _WAITING)
