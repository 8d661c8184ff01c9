"""The watchdog of a host: a thread of the boot, which asks where a job stands that makes no steps.

All hosts post how long ago their ranks made a step. The first host sees a stall and calls for a look; every
host looks at its own ranks twice, and posts what was equal in both. The first host judges that and posts
the verdict, which all of them read. What is certain is looked at once more and then ends the job; what may
still pass is told, and ends it when it has lasted as long as the process group lets its ranks wait.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.container import Container, Task
from slipway.errors import say
from slipway.host_assembly import Assembly, FirstHostSilent
from slipway.processes.supervise import StopRequest, send_signal
from slipway.ranks.attendant import ENDED, FAILED, STATE_VARIABLE
from slipway.watchdog.ask_ranks import LONGEST_ANSWER_SECONDS, NcclPipes, Ranks
from slipway.watchdog.judge_stall import (
    Pulse,
    Pulses,
    StallLimits,
    StallVerdict,
    Standstill,
    ends_job,
    judge_stall,
    operation_text,
    pulse_of,
    ranks_text,
    verdict_from_json,
    verdict_to_json,
)
from slipway.watchdog.rank_views import (
    DUMPS_FOLDER,
    GONE,
    Operation,
    RankView,
    keep_dumps,
    steady_view,
    text_reader,
    view_from_json,
    view_to_json,
)

# Made where the job asks for a watchdog, and nothing where nobody is watched.


PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
"""Begins the names of the pipes by which NCCL's recorder is asked from outside, without the interpreter's
lock (ProcessGroupNCCL, DumpPipe)."""

DUMP_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Begin the names of the files that it then writes; the first since torch 2.9."""


def is_watched(task: Task) -> bool:
    """Whether the ranks of this job are: what a shell script starts is its own business."""
    return task.watchdog is not None and not (task.entry_point or "").endswith(".sh")


def with_pipes(environment: Mapping[str, str]) -> dict[str, str]:
    """The ranks' environment, in which NCCL's recorder can be asked; what the user set stays."""
    found = dict(environment)
    folder = Path(environment[STATE_VARIABLE]) / "pipes"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        # PyTorch raises where it cannot make one: tried here first.
        trial = folder / "trial"
        os.mkfifo(str(trial))
        trial.unlink()
        found.setdefault(PIPE_VARIABLE, f"{folder}/rank_")
    return found


@contextlib.contextmanager
def watching(
    task: Task,
    container: Container,
    environment: Mapping[str, str],
    assembly: Assembly,
    stop: StopRequest,
    number: int = 0,
) -> Iterator[Watchdog | None]:
    """Watch this host's ranks while they run; `environment` is theirs, `number` tells their starts apart."""
    if task.watchdog is None or not is_watched(task):
        yield None
        return
    each = 1 if task.strategy == "none" else task.processes_per_host
    first = container.node_rank * each
    dumps = next((environment[name] for name in DUMP_VARIABLES if environment.get(name)), None)
    ranks = Ranks(
        Path(environment[STATE_VARIABLE]),
        range(first, first + each),
        container.current_host,
        container.code,
        NcclPipes(environment[PIPE_VARIABLE], dumps) if dumps and PIPE_VARIABLE in environment else None,
    )
    watched = Watched(ranks, assembly, container.code, container.logs / DUMPS_FOLDER)
    watchdog = Watchdog(watched, task.watchdog, say, topic=f"watchdog-{number}")
    stop.held_by = watchdog.delays_stop
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.close()
        ranks.forget()


POLL_SECONDS = 2.0
"""Between two posts of a host's pulse: the first host answers 64 questions a second of 64 hosts."""

BETWEEN_LOOKS = 1.0
"""Seconds between the two looks at the ranks: what moves at all has moved by then."""

VIEWS_SECONDS, VERDICT_SECONDS = 30.0, 40.0
"""How long the first host waits for the others' looks, and these for its verdict."""

CONFIRMING_SECONDS = 5.0
"""After which a certain verdict is looked at again."""

UNKNOWN_TIMEOUT = 600.0
"""Seconds that ranks may wait for one that still works where their group's timeout is not known: NCCL's
default (torch/distributed/constants.py, default_pg_nccl_timeout)."""

STOPPED_MEANWHILE = 10.0
"""Seconds without a step after which a stop is answered by a look first, if no rank ever paused so long."""


HOLDING_SECONDS = 8.0
"""For which a stop is held back at most: two looks take less."""


@dataclass(frozen=True)
class Watched:
    """What is watched: this host's ranks, and where the dumps of their recorders are kept."""

    ranks: Ranks
    assembly: Assembly
    code: Path
    kept: Path


class Watchdog:
    """Beside the ranks. `verdict` is what was found last, `ends` whether the job is to end by it."""

    def __init__(
        self,
        watched: Watched,
        limits: StallLimits,
        say: Callable[[str], None],
        *,
        topic: str = "watchdog",
        poll: float = POLL_SECONDS,
        between: float = BETWEEN_LOOKS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topic` tells this start of the job from an earlier one among the hosts; `poll` and
        `between`, which lies between the two looks at the ranks, are in seconds."""
        self.verdict: StallVerdict | None = None
        self.ends = False
        self._watched, self._say, self._topic = watched, say, topic
        self._poll, self._between, self._clock = poll, between, clock
        self._pulses = Pulses(limits)
        self._waits = LongWaits(watched.ranks, say)
        self._woken, self._closed = threading.Event(), threading.Event()
        self._counted = self._looks = self._answered = 0
        self._next_look = 0.0
        self._told_at = -math.inf
        self._stopping: float | None = None
        self._stops_standing = self._stop_looked = False
        self._judged_at = self._concluded_at = 0.0
        self._silent = False
        self._failure: threading.Thread | None = None
        self._seen_at_failure: list[RankView] = []
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._watched.ranks.forget()
        self._thread.start()

    def close(self) -> None:
        """Watch no more: the ranks have ended."""
        self._closed.set()
        self._woken.set()

    def standing_verdict(self) -> StallVerdict | None:
        """The verdict as long as no rank of this host has made a step since: why the ranks ended, where all
        that they say is that they waited in vain."""
        now = self._clock()
        since = pulse_of(self._watched.ranks.beats().values(), now).since
        stands = since is not None and now - since <= self._concluded_at
        return self.verdict if stands else None

    def end_stalled(self, command: int) -> None:
        """End the ranks below the command's process where the verdict says so; the rest is swept up after."""
        if self.ends:
            send_signal(command, signal.SIGKILL)

    def look_at_failure(self, _: int) -> None:
        """Once the first rank here has failed, ask all of them where they are: they end with it."""
        beats = self._watched.ranks.beats() if self._failure is None else {}
        if any(beat.phase == FAILED for beat in beats.values()):
            self._failure = threading.Thread(target=self._ask_with_failed, daemon=True)
            self._failure.start()

    def _ask_with_failed(self) -> None:
        ranks = self._watched.ranks
        self._seen_at_failure = ranks.with_stacks(ranks.look(stacks=True))

    def seen_at_failure(self) -> list[RankView]:
        """This host's ranks as they were when the first of them had failed; none where not all were seen."""
        if self._failure is not None:
            self._failure.join(LONGEST_ANSWER_SECONDS)
        seen = self._seen_at_failure
        return (
            seen
            if all(view.answered or view.lines or (view.ended and not view.failed) for view in seen)
            else []
        )

    def ended_while_waiting(self) -> list[RankView]:
        """This host's ranks that were ended where they waited for others."""
        return self._watched.ranks.ended_while_waiting()

    def delays_stop(self, seconds: float) -> bool:
        """Whether a stop of the job waits for a look at its ranks, which the signal would wake.

        Called again until it is false, which it is after half of `seconds`, the ranks' grace, at most.
        """
        now = self._clock()
        if self._stopping is None:
            self._stopping = now
            self._stops_standing = self.verdict is None and self._stands_still(now)
            self._woken.set()
        return self._stops_standing and now - self._stopping < min(HOLDING_SECONDS, seconds / 2)

    def _stands_still(self, now: float) -> bool:
        pulse = pulse_of(self._watched.ranks.beats().values(), now)
        longest = max(STOPPED_MEANWHILE, 5 * pulse.longest)
        return pulse.watched > 0 and pulse.since is not None and pulse.since > longest

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._watch_once()
            except FirstHostSilent as error:
                if not self._silent and not self._closed.is_set():
                    self._silent = True
                    self._say(f"the watchdog has lost the first host: {error}")
            self._woken.wait(self._poll)
            self._woken.clear()

    def _watch_once(self) -> None:
        """One look at the beats, and all that follows from it."""
        now, assembly = self._clock(), self._watched.assembly
        pulse = pulse_of(self._watched.ranks.beats().values(), now)
        self._counted += 1
        told = [self._counted, pulse.since, pulse.begun, pulse.longest, pulse.watched]
        assembly.post(self._topic_of("beats"), [*told, self._ended_well(), self._sizes_of_groups()])
        if assembly.is_first:
            self._pulses.hear(assembly.read(self._topic_of("beats")), now)
            stands = self._pulses.standstill(now)
            if stands is not None and self._wants_look(stands, now):
                self._looks += 1
                assembly.post(self._topic_of("look"), [self._looks, str(stands)])
        asked = assembly.read(self._topic_of("look")).get(assembly.hosts[0])
        if asked is not None and asked[0] > self._answered:
            self._answered = asked[0]
            self._look_at_ranks(*asked)
        self._waits.look(pulse, self._clock())

    def _ended_well(self) -> list[tuple[int, int]]:
        """This host's ranks whose scripts came to their end, with the steps that they made."""
        beats = self._watched.ranks.beats()
        return [(rank, beat.steps) for rank, beat in beats.items() if beat.phase == ENDED]

    def _sizes_of_groups(self) -> list[int]:
        return [beat.group for beat in self._watched.ranks.beats().values()]

    def sizes_of_groups(self, world: int) -> list[int]:
        """How many ranks the default process group had in which each rank of the job made its first step, 0
        where there was none; of this host's alone where not all of them are smaller than the `world`."""
        assembly, own = self._watched.assembly, self._sizes_of_groups()
        if len(assembly.hosts) == 1 or not all(0 < size < world for size in own):
            return own
        said = {assembly.current: own}
        with contextlib.suppress(FirstHostSilent):
            self._closed.wait(self._poll * 1.5)
            told = assembly.read(self._topic_of("beats"))
            said = {**{host: value[6] for host, value in told.items()}, **said}
        return [size for sizes in said.values() for size in sizes]

    def ranks_ended_well(self) -> list[RankView]:
        """All hosts' ranks whose scripts came to their end; waits for what the other hosts say once more."""
        assembly = self._watched.assembly
        told = {assembly.current: self._ended_well()}
        with contextlib.suppress(FirstHostSilent):
            if len(assembly.hosts) > 1:
                self._closed.wait(self._poll * 1.5)
                said = assembly.read(self._topic_of("beats"))
                told = {**{host: value[5] for host, value in said.items()}, **told}
        return [
            RankView(rank, host, GONE, steps, ended=True)
            for host, ended in told.items()
            for rank, steps in ended
        ]

    def _wants_look(self, stands: Standstill, now: float) -> bool:
        if self.verdict is not None and now - stands.seconds > self._judged_at:
            self._say(f"the ranks get on again, after {self.verdict.code} was told")
            self.verdict = None
        if self._stops_standing and not self._stop_looked and self.verdict is None:
            self._stop_looked = True
            return True
        if not stands.over:
            self._next_look = 0.0
            return False
        return now >= self._next_look

    def _look_at_ranks(self, number: int, why: str) -> None:
        """This host's part of a look: two at its own ranks, and what all of it comes to."""
        ranks, assembly = self._watched.ranks, self._watched.assembly
        before = {view.rank: view for view in ranks.look()}
        self._closed.wait(self._between)
        after = ranks.look(stacks=True)
        dumps = ranks.dumps()
        equal = [steady_view(before[view.rank], view) for view in after if view.rank in before]
        views = ranks.with_stacks([view for view in equal if view is not None])
        moves = len(views) < len(before)
        assembly.post(self._topic_of(f"views-{number}"), [moves, [view_to_json(view) for view in views]])
        if assembly.is_first:
            verdict, ends = self._judge_all_views(number)
            assembly.post(self._topic_of(f"verdict-{number}"), [verdict_to_json(verdict), ends])
        verdict, ends = self._read_verdict(number)
        if self._closed.is_set():
            return
        if verdict is not None:
            keep_dumps(dumps, {view.rank: view.groups for view in after}, self._watched.kept)
        self._apply_verdict(number, verdict, ends, why)

    def _judge_all_views(self, number: int) -> tuple[StallVerdict | None, bool]:
        """The first host's judgement of what all hosts saw."""
        said = self._wait_for(
            self._topic_of(f"views-{number}"), len(self._watched.assembly.hosts), VIEWS_SECONDS
        )
        views: list[RankView] = []
        for _, seen in said.values():
            views += [view_from_json(each) for each in seen]
        moves = any(each[0] for each in said.values())
        verdict = (
            None
            if moves
            else judge_stall(sorted(views, key=lambda view: view.rank), text_reader(self._watched.code))
        )
        self._judged_at = now = self._clock()
        if verdict is None or self.verdict is None or verdict.ranks != self.verdict.ranks:
            self._told_at = now
        ends = ends_job(verdict, self.verdict, now - self._told_at, UNKNOWN_TIMEOUT)
        if verdict is not None and verdict.certain:
            self._next_look = now + CONFIRMING_SECONDS
        else:
            self._next_look = now + (30.0 if verdict else 60.0)
        return verdict, ends

    def _read_verdict(self, number: int) -> tuple[StallVerdict | None, bool]:
        said = self._wait_for(self._topic_of(f"verdict-{number}"), 1, VERDICT_SECONDS)
        for told, ends in said.values():
            return verdict_from_json(told), ends
        return None, False

    def _apply_verdict(self, number: int, verdict: StallVerdict | None, ends: bool, why: str) -> None:
        told, self.verdict, self._concluded_at = self.verdict, verdict, self._clock()
        self._stops_standing = False
        first = self._watched.assembly.is_first
        if verdict is not None and first and (told is None or told.same_as != verdict.same_as):
            warning = "" if verdict.certain else "warning: "
            self._say(f"{warning}{verdict.text}; {why}")
        if ends:
            # All hosts know before the first of them ends its ranks, by which the others' would fail.
            self._watched.assembly.exchange(self._topic_of(f"end-{number}"), True, 3.0)
            self.ends = True

    def _wait_for(self, topic: str, many: int, seconds: float) -> Any:
        until = self._clock() + seconds
        while True:
            said = self._watched.assembly.read(topic)
            if len(said) >= many or self._clock() > until or self._closed.wait(0.2):
                return said

    def _topic_of(self, what: str) -> str:
        return f"{self._topic}:{what}"


# DDP005: a rank that waits in a collective for half of what its process group allows, or longer.


LONG_WAIT = "DDP005"

SHARE = 0.5
"""Of the timeout, from which on a wait is told of."""

_QUIET_SECONDS = 60.0
"""So long no rank of this host made a step before the recorders are asked, and between two questions: no
timeout that anybody sets on purpose is much shorter."""


class LongWaits:
    """Looks at this host's ranks while they make no steps; says of each group once that a wait is long."""

    def __init__(self, ranks: Ranks, say: Callable[[str], None]) -> None:
        self._ranks, self._say = ranks, say
        self._told: set[str] = set()
        self._next = 0.0

    def look(self, pulse: Pulse, now: float) -> None:
        """Ask the ranks where they wait, if they make no steps; `now` is the monotonic clock's."""
        if pulse.since is None or pulse.since < _QUIET_SECONDS or now < self._next:
            return
        self._next = now + _QUIET_SECONDS / 2
        for operation, text in long_waits(self._ranks.look()):
            if operation.group not in self._told:
                self._told.add(operation.group)
                self._say(f"warning: {text}")


def long_waits(views: Iterable[RankView]) -> Iterator[tuple[Operation, str]]:
    """Of each group the longest wait that is half of its timeout or more, with what there is to say."""
    longest: dict[str, tuple[Operation, RankView]] = {}
    for view in views:
        for each in view.waiting:
            known = longest.get(each.group)
            is_long = each.timeout is not None and each.seconds >= SHARE * each.timeout
            if is_long and (known is None or each.seconds > known[0].seconds):
                longest[each.group] = each, view
    for operation, view in longest.values():
        share = 100 * operation.seconds / (operation.timeout or 1)
        yield (
            operation,
            f"{LONG_WAIT} {ranks_text([view.rank])} on {view.host} has waited {operation.seconds:.0f} s in "
            f"{operation_text(operation, view.groups.get(operation.group, ()))}, {share:.0f} % of its "
            f"group's timeout of {operation.timeout:.0f} s: past it the job fails. Raise `timeout` of "
            "init_process_group, or let the others not wait so long",
        )
