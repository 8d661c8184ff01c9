"""A look at this host's ranks: all are asked at once, and what they answer becomes views.

A rank that does not answer is not disturbed before both looks of a stall are taken: a signal wakes blocked
calls, and changes what is judged.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.ranks.answers import answer_file, question_file, recorder_file, stacks_file
from slipway.ranks.heartbeat import ENDED, Beat, heartbeat_file, read_beat
from slipway.watchdog.forced import LARGEST_ANSWER, NcclPipes, read, stacks_by_signal, write
from slipway.watchdog.places import StackFrame, is_saving, user_lines, waits_inside
from slipway.watchdog.proc import state_of
from slipway.watchdog.recording import LARGEST_DUMP, group_ranks, operations_in, read_dump
from slipway.watchdog.views import GONE, STOPPED, RankView

ANSWER_SECONDS = 1.5
"""So long an answer is waited for: one takes some milliseconds, and up to a second on a busy host."""

_POLL_SECONDS = 0.02


class Ranks:
    """This host's ranks, as their heartbeats and their answers show them."""

    def __init__(
        self, state: Path, ranks: Sequence[int], host: str, code: Path, nccl: NcclPipes | None = None
    ) -> None:
        """`code` is the folder of the user's code."""
        self._files = {rank: heartbeat_file(state, rank) for rank in ranks}
        self._host, self._code, self._nccl = host, str(code), nccl
        self._number = 0
        self._dumps: dict[int, bytes] = {}

    def forget(self) -> None:
        """Remove what an earlier start left."""
        for file in self._files.values():
            for of in (Path, question_file, answer_file, recorder_file, stacks_file):
                with contextlib.suppress(FileNotFoundError):
                    of(file).unlink()

    def beats(self) -> dict[int, Beat]:
        """The heartbeats of the ranks that have begun."""
        found = {rank: read_beat(file) for rank, file in self._files.items()}
        return {rank: beat for rank, beat in found.items() if beat is not None}

    def dumps(self) -> dict[int, bytes]:
        """What the recorders of the ranks said at the last look."""
        return dict(self._dumps)

    def look(self, seconds: float = ANSWER_SECONDS) -> list[RankView]:
        """Ask all ranks where they are, and wait so long for their answers."""
        self._number += 1
        beats = self.beats()
        alive = [rank for rank, beat in beats.items() if state_of(beat.pid) not in (GONE, STOPPED)]
        asked = [rank for rank in alive if write(question_file(self._files[rank]), b"%d\n" % self._number)]
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

    def _answers(self, asked: Sequence[int], seconds: float) -> dict[int, Mapping[str, Any]]:
        found: dict[int, Mapping[str, Any]] = {}
        until = time.monotonic() + seconds
        while True:
            for rank in asked:
                told = None if rank in found else self._answer(rank)
                if told is not None:
                    found[rank] = told
            if len(found) == len(asked) or time.monotonic() > until:
                return found
            time.sleep(_POLL_SECONDS)

    def _answer(self, rank: int) -> Mapping[str, Any] | None:
        content = read(answer_file(self._files[rank]), LARGEST_ANSWER)
        with contextlib.suppress(ValueError, TypeError, KeyError):
            told = json.loads(content or b"")
            if told["number"] == self._number:
                return dict(told)
        return None

    def _recorded(self, answers: Mapping[int, Mapping[str, Any]]) -> dict[int, bytes]:
        found = {
            rank: read(recorder_file(self._files[rank]), LARGEST_DUMP)
            for rank, told in answers.items()
            if told.get("recorded")
        }
        return {rank: content for rank, content in found.items() if content is not None}

    def _view(self, rank: int, beat: Beat, told: Mapping[str, Any] | None, now: float) -> RankView:
        state = state_of(beat.pid)
        view = RankView(rank, self._host, state, beat.steps, beat.phase == ENDED, told is not None)
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            if told is not None:
                groups = {name: tuple(ranks) for name, ranks in told["groups"].items()}
                frames = [StackFrame(*frame) for frame in told["threads"][0]["frames"]]
                view = replace(self._at(view, frames), groups=groups, waits_by_stack=waits_inside(frames))
        with contextlib.suppress(ValueError):
            if rank in self._dumps:
                dump = read_dump(self._dumps[rank])
                last, operations = operations_in(dump, self._code, now)
                groups = {**group_ranks(dump), **view.groups}
                return replace(view, recorded=True, last=last, operations=operations, groups=groups)
        return view

    def _with_stack(self, view: RankView, stacks: Sequence[Sequence[StackFrame]]) -> RankView:
        # faulthandler writes the main thread last.
        mine = [stack for stack in stacks if user_lines(stack, self._code)]
        return self._at(view, mine[-1]) if mine else view

    def _at(self, view: RankView, frames: Sequence[StackFrame]) -> RankView:
        return replace(view, lines=user_lines(frames, self._code), saving=is_saving(frames))
