"""What a rank answers when the boot asks where it is: its stacks, its collectives, its groups.

One answer is two files beside the heartbeat: `RANK.answer` (JSON), and `RANK.recorder` with what PyTorch's
flight recorder knows, as PyTorch writes it. Answered by a thread of the rank, so that nothing is interrupted.
The rank reads its own recorder, and tells the newest of it: a full one is megabytes of 20,000 collectives,
which take a host of eight ranks many seconds.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

_DEEPEST = 100
"""Frames of a thread, the innermost: what lies further out says little of where it is."""

_RECORDERS = ("_dump_fr_trace", "_dump_nccl_trace")
"""Of any device since torch 2.9 or so, and of NCCL since 2.2 (torch/csrc/distributed/c10d/init.cpp)."""


def question_file(heartbeat: Path) -> Path:
    """The pipe into which the boot writes the number of a question."""
    return heartbeat.with_name(heartbeat.name + ".question")


def answer_file(heartbeat: Path) -> Path:
    """What the rank answers, with the number of the question in it."""
    return heartbeat.with_name(heartbeat.name + ".answer")


def recorder_file(heartbeat: Path) -> Path:
    """What the flight recorder knew at that answer; missing where there is none."""
    return heartbeat.with_name(heartbeat.name + ".recorder")


def stacks_file(heartbeat: Path) -> Path:
    """Where faulthandler writes the stacks of a rank that does not answer."""
    return heartbeat.with_name(heartbeat.name + ".stacks")


def answer(heartbeat: Path, number: int, stacks: bool) -> None:
    """Answer a question: the recorder first, the answer's own file last.

    With `stacks` the recorder tells the lines that led to each collective, which takes PyTorch seconds where
    it is full.

    Raises OSError where the files cannot be written, ValueError where the recorder cannot be read.
    """
    # Here, not at the top: a rank that is never asked need not load it.
    import json

    from slipway.watchdog.recording import newest_of, read_dump

    recorded = _recorded(stacks)
    newest = None
    if recorded is None:
        with contextlib.suppress(FileNotFoundError):
            recorder_file(heartbeat).unlink()
    else:
        _put(recorder_file(heartbeat), recorded)
        newest = newest_of(read_dump(recorded))
    told = {"number": number, "recorder": newest, "groups": _groups(), "threads": _threads()}
    _put(answer_file(heartbeat), json.dumps(told).encode())


def _put(file: Path, content: bytes) -> None:
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    part.replace(file)


def _recorded(stacks: bool) -> bytes | None:
    """The dump of the first recorder that holds something, else of any that is there."""
    library: Any = sys.modules.get("torch._C._distributed_c10d")
    dumps = []
    for name in _RECORDERS:
        dump = getattr(library, name, None)
        if dump is None:
            continue
        try:
            # Collectives, their stacks, and not only what is in flight; older versions take fewer arguments.
            dumps.append(dump(True, stacks, False))
        except TypeError:
            dumps.append(dump())
        except RuntimeError:
            continue
    return max(dumps, key=len, default=None)


def _groups() -> dict[str, list[int]]:
    """The global ranks of each process group that this rank belongs to, by the group's name."""
    library: Any = sys.modules.get("torch.distributed.distributed_c10d")
    # `_world` since torch 2.0, before that names of the module (torch/distributed/distributed_c10d.py).
    world = getattr(library, "_world", None)
    names = getattr(world, "pg_names", None) or getattr(library, "_pg_names", None) or {}
    members = getattr(world, "pg_group_ranks", None) or getattr(library, "_pg_group_ranks", None) or {}
    return {str(name): sorted(members[group]) for group, name in list(names.items()) if group in members}


def _threads() -> list[dict[str, Any]]:
    """The stacks of all threads, the main thread's first; frames from the outermost to the innermost."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sys._current_frames()
    ordered = sorted(frames, key=lambda identity: identity != main)
    own = threading.get_ident()
    return [
        {"name": names.get(each, ""), "main": each == main, "frames": _stack(frames[each])}
        for each in ordered
        if each != own
    ]


def _stack(frame: FrameType | None) -> list[list[Any]]:
    found: list[list[Any]] = []
    while frame is not None and len(found) < _DEEPEST:
        found.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    return found[::-1]
