"""A look at this host's ranks: all are asked at once, and what they answer becomes views.

A rank that does not answer is not disturbed before both looks of a stall are taken: a signal wakes blocked
calls, and changes what is judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.processes.supervise import send_signal
from slipway.ranks.attendant import (
    ENDED,
    FAILED,
    Beat,
    answer_file,
    heartbeat_file,
    last_stacks_file,
    question_file,
    read_beat,
    recorder_file,
    stacks_file,
)
from slipway.watchdog.rank_views import (
    GONE,
    LARGEST_DUMP,
    STOPPED,
    RankView,
    StackFrame,
    counters_in,
    group_ranks,
    is_saving,
    operations_in,
    read_dump,
    user_lines,
    waits_inside,
)

ANSWER_SECONDS = 1.5
"""In which a rank that answers has begun to: its thread needs some milliseconds, on a busy host a second."""

LONGEST_ANSWER_SECONDS = 12.0
"""In which it has answered: a full recorder with all its stacks takes PyTorch some seconds."""

_POLL_SECONDS = 0.02


class Ranks:
    """This host's ranks, as their heartbeats and their answers show them."""

    def __init__(
        self, state: Path, ranks: Sequence[int], host: str, code: Path, nccl: NcclPipes | None = None
    ) -> None:
        """`code` is the folder of the user's code."""
        self._files = {rank: heartbeat_file(state, rank) for rank in ranks}
        self._host, self._code, self._nccl = host, str(code), nccl
        self._number, self._asking = 0, threading.Lock()
        self._dumps: dict[int, bytes] = {}

    def forget(self) -> None:
        """Remove what an earlier start left."""
        for file in self._files.values():
            for of in (Path, question_file, answer_file, recorder_file, stacks_file, last_stacks_file):
                with contextlib.suppress(FileNotFoundError):
                    of(file).unlink()

    def beats(self) -> dict[int, Beat]:
        """The heartbeats of the ranks that have begun."""
        found = {rank: read_beat(file) for rank, file in self._files.items()}
        return {rank: beat for rank, beat in found.items() if beat is not None}

    def dumps(self) -> dict[int, bytes]:
        """What the recorders of the ranks said at the last look."""
        return dict(self._dumps)

    def look(self, seconds: float = ANSWER_SECONDS, *, stacks: bool = False) -> list[RankView]:
        """Ask all ranks where they are; who has not begun to answer after so long gives none.

        With `stacks` their recorders tell the lines that led to each collective.
        """
        with self._asking:
            return self._look(seconds, stacks)

    def _look(self, seconds: float, stacks: bool) -> list[RankView]:
        self._number += 1
        beats = self.beats()
        alive = [rank for rank, beat in beats.items() if process_state(beat.pid) not in (GONE, STOPPED)]
        question = b"%d %d\n" % (self._number, stacks)
        asked = [rank for rank in alive if write_to_pipe(question_file(self._files[rank]), question)]
        answers = self._answers(asked, seconds)
        self._dumps = self._recorded(answers)
        silent = [rank for rank in alive if rank not in answers]
        if self._nccl is not None and silent:
            self._dumps.update(self._nccl.ask(silent))
        now = time.time()
        return [self._view(rank, beat, answers.get(rank), now) for rank, beat in beats.items()]

    def with_stacks(self, views: Sequence[RankView]) -> list[RankView]:
        """The views, with the stack that a signal brings to light where a rank gave no answer."""
        beats = self.beats()
        asked = {
            stacks_file(self._files[view.rank]): beats[view.rank]
            for view in views
            if not view.answered and view.state not in (STOPPED, GONE) and view.rank in beats
        }
        found = stacks_by_signal(asked)
        return [self._with_stack(view, found.get(stacks_file(self._files[view.rank]), [])) for view in views]

    def ended_while_waiting(self) -> list[RankView]:
        """The ranks that ended where they waited for others, as after the failure of one."""
        found = []
        for rank, beat in self.beats().items():
            content = read_bounded(last_stacks_file(self._files[rank]), LARGEST_ANSWER)
            stacks = [each for each in stacks_in(content or b"") if user_lines(each, self._code)]
            if stacks and waits_inside(stacks[-1]):
                view = RankView(rank, self._host, GONE, beat.steps, ended=True, failed=True)
                found.append(replace(self._with_stack(view, stacks), waits_by_stack=True))
        return found

    def _answers(self, asked: Sequence[int], seconds: float) -> dict[int, Mapping[str, Any]]:
        found: dict[int, Mapping[str, Any]] = {}
        begun = time.monotonic()
        while True:
            for rank in asked:
                told = None if rank in found else self._answer(rank)
                if told is not None:
                    found[rank] = told
            waited = time.monotonic() - begun
            left = [rank for rank in asked if rank not in found]
            if waited > seconds:
                left = [rank for rank in left if self._begins(rank) and waited < LONGEST_ANSWER_SECONDS]
            if not left:
                return found
            time.sleep(_POLL_SECONDS)

    def _begins(self, rank: int) -> bool:
        beat = read_beat(self._files[rank])
        return beat is not None and beat.asked == self._number

    def _answer(self, rank: int) -> Mapping[str, Any] | None:
        content = read_bounded(answer_file(self._files[rank]), LARGEST_ANSWER)
        with contextlib.suppress(ValueError, TypeError, KeyError):
            told = json.loads(content or b"")
            if told["number"] == self._number:
                return dict(told)
        return None

    def _recorded(self, answers: Mapping[int, Mapping[str, Any]]) -> dict[int, bytes]:
        found = {
            rank: read_bounded(recorder_file(self._files[rank]), LARGEST_DUMP)
            for rank, told in answers.items()
            if told.get("recorder")
        }
        return {rank: content for rank, content in found.items() if content is not None}

    def _view(self, rank: int, beat: Beat, told: Mapping[str, Any] | None, now: float) -> RankView:
        state = process_state(beat.pid)
        failed = beat.phase == FAILED
        ended = failed or beat.phase == ENDED
        view = RankView(rank, self._host, state, beat.steps, ended, told is not None, failed=failed)
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            if told is not None:
                groups = {name: tuple(ranks) for name, ranks in told["groups"].items()}
                frames = [StackFrame(*frame) for frame in told["threads"][0]["frames"]]
                view = replace(self._at(view, frames), groups=groups, waits_by_stack=waits_inside(frames))
        with contextlib.suppress(ValueError):
            dump: Any = told.get("recorder") if told is not None else None
            if told is None and rank in self._dumps:
                dump = read_dump(self._dumps[rank])
            if isinstance(dump, dict) and dump.get("entries"):
                last, operations = operations_in(dump, self._code, now)
                groups = {**group_ranks(dump), **view.groups}
                return replace(view, recorded=True, last=last, operations=operations, groups=groups)
        return view

    def _with_stack(self, view: RankView, stacks: Sequence[Sequence[StackFrame]]) -> RankView:
        # faulthandler writes the main thread last.
        mine = [stack for stack in stacks if user_lines(stack, self._code)]
        return self._at(view, mine[-1]) if mine else view

    def _at(self, view: RankView, frames: Sequence[StackFrame]) -> RankView:
        counters = counters_in(frames, self._code)
        return replace(
            view, lines=user_lines(frames, self._code), saving=is_saving(frames), counters=counters
        )


# What a rank tells that does not answer: where C code keeps the interpreter's lock, or nothing listens.
#
# NCCL's recorder is asked by its pipe, which disturbs nothing (a thread of PyTorch's own reads it, about
# once a second). The stacks are written by faulthandler at a signal, which wakes blocked calls: the last
# resort.


LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer, or of stacks, that are read."""

_STACKS_SECONDS, _PIPE_SECONDS, _FORCED_POLL_SECONDS = 0.5, 2.5, 0.05

_FRAME = re.compile(
    r'^ {2}File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}) in (?P<name>[^\n]{1,500})$', re.MULTILINE
)


def stacks_by_signal(asked: Mapping[Path, Beat]) -> dict[Path, list[list[StackFrame]]]:
    """The stacks of all threads, by the file into which a rank writes them; frames from the outermost.

    Only ranks that handle the signal get one: it would end the others.
    """
    able = {
        file: beat for file, beat in asked.items() if beat.signal and handles_signal(beat.pid, beat.signal)
    }
    for file, beat in able.items():
        file.write_bytes(b"")
        send_signal(beat.pid, beat.signal)
    if able:
        time.sleep(_STACKS_SECONDS)
    return {file: stacks_in(read_bounded(file, LARGEST_ANSWER) or b"") for file in able}


def stacks_in(content: bytes) -> list[list[StackFrame]]:
    """What faulthandler wrote, which begins with the innermost frame of each thread."""
    parts = content.decode("utf-8", "replace").split("\n\n")
    stacks = [
        [StackFrame(match["file"], int(match["line"]), match["name"]) for match in _FRAME.finditer(part)]
        for part in parts
    ]
    return [stack[::-1] for stack in stacks if stack]


class NcclPipes:
    """NCCL's recorders, asked from outside; `pipes` and `dumps` begin the names of their files."""

    def __init__(self, pipes: str, dumps: str) -> None:
        self._pipes, self._dumps = pipes, dumps

    def ask(self, ranks: Sequence[int]) -> dict[int, bytes]:
        """The dumps of those that write one now."""
        before = {rank: _bytes_written(self._dump(rank)) for rank in ranks}
        waiting = [rank for rank in ranks if write_to_pipe(Path(f"{self._pipes}{rank}.pipe"), b"1\n")]
        until = time.monotonic() + _PIPE_SECONDS
        found: dict[int, bytes] = {}
        while len(found) < len(waiting) and time.monotonic() < until:
            time.sleep(_FORCED_POLL_SECONDS)
            for rank in waiting:
                content = read_bounded(self._dump(rank), LARGEST_DUMP)
                # A pickle ends with a dot (PROTO's STOP): what does not is still being written.
                if _bytes_written(self._dump(rank)) != before[rank] and content and content.endswith(b"."):
                    found[rank] = content
        return found

    def _dump(self, rank: int) -> Path:
        return Path(f"{self._dumps}{rank}")


def write_to_pipe(pipe: Path, content: bytes) -> bool:
    """Write into a pipe where somebody reads; False where nobody does, or it is full."""
    try:
        descriptor = os.open(str(pipe), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(descriptor, content) == len(content)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read_bounded(file: Path, most: int) -> bytes | None:
    """A file's content; None where it is missing or larger than it should be."""
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None


def _bytes_written(file: Path) -> float | None:
    return file.stat().st_mtime if file.exists() else None


# What Linux says of a process: its state, and which signals it handles (proc(5)).


def process_state(pid: int) -> str:
    """R, S, D or T; GONE where there is no such process, or nothing but its exit code is left of it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return GONE
    # The name in parentheses may hold spaces and parentheses itself.
    state = text.rpartition(")")[2].split()[0]
    return GONE if state in "ZXx" else state.upper()


def handles_signal(pid: int, signal: int) -> bool:
    """Whether a process has a handler for a signal; where it has none, most signals would end it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (signal - 1) & 1)
    except (OSError, StopIteration, ValueError, IndexError):
        return False
