"""One start of this host's ranks, from their first process to what their end says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slipway.checkpoints.shelf import stored
from slipway.evidence import judge
from slipway.failure import Cause, RankEnd, root_cause
from slipway.hosts.assembly import Assembly
from slipway.joined import Meeting, meeting_of
from slipway.processes import Ended, StopRequest, workers
from slipway.ranks.heartbeat import STATE_VARIABLE, heartbeat_file, read_beat
from slipway.restarts.agreement import failed_topic
from slipway.restarts.neighbours import Neighbours
from slipway.starting import HostRun, all_of, alone, under_torchrun
from slipway.watchdog.judgement import StallVerdict
from slipway.watchdog.of_host import watching

WAITED_IN_VAIN = ("NCCL004", "NCCL006")
"""What ranks say whose own patience was at an end, or whose peer's was."""


@dataclass(frozen=True)
class StartEnd:
    """How a start of this host's ranks ended.

    `verdict` is the watchdog's, where it ended them; `cause` why they failed, None where they did not, or
    only because another host's had. `steps` are those of the rank that made most.
    """

    ended: Ended
    verdict: StallVerdict | None
    cause: Cause | None
    steps: int
    meeting: Meeting


def start_ranks(run: HostRun, number: int, assembly: Assembly, stop: StopRequest) -> StartEnd:
    """Start this host's ranks, the `number`th time after the first, and wait for their end."""
    meeting = meeting_of(run.task, run.container, run.rendezvous)
    beside: list[Callable[[int], None]] = [meeting.look]
    neighbours = Neighbours(assembly, failed_topic(number), lambda command: _all_live(run, command))
    if run.task.restarts:
        neighbours.start()
        beside.append(neighbours.end_with_them)
    start = under_torchrun if run.task.strategy == "torchrun" else alone
    verdict = standing = None
    with watching(run.task, run.container, run.environment, assembly, stop, number) as watchdog:
        beside += [watchdog.end_stalled] if watchdog else []
        ended, failed = start(run, stop, beside=all_of(*beside))
        neighbours.close()
        if watchdog is not None:
            standing = watchdog.standing()
            verdict = watchdog.verdict if watchdog.ends else None
        steps = _steps(run)
    cause = None
    if ended.exit_code != 0:
        cause = root_cause(failed, str(run.container.code))
        if cause is None and not neighbours.ended:
            cause = _cause_of_command(run, ended)
        # Whoever waited too long says so, and whom for the watchdog knows.
        if cause is not None and cause.evidence.code in WAITED_IN_VAIN:
            verdict = verdict or standing
    return StartEnd(ended, verdict, cause, steps, meeting)


def newest_checkpoint(run: HostRun) -> int:
    """The step of the newest complete checkpoint on this host's disk, -1 without one."""
    folder = run.environment.get("SLIPWAY_CHECKPOINT_DIR")
    found = stored(Path(folder)) if folder else []
    return max((one.step for one in found if one.manifest is not None), default=-1)


def _all_live(run: HostRun, command: int) -> bool:
    """Whether no rank of this host has ended, so that the command only waits. A script alone lives as long
    as its own process."""
    return run.task.strategy == "none" or len(workers(command)) >= run.task.processes_per_host


def _ranks(run: HostRun) -> range:
    each = 1 if run.task.strategy == "none" else run.task.processes_per_host
    first = run.container.node_rank * each
    return range(first, first + each)


def _steps(run: HostRun) -> int:
    state = Path(run.environment[STATE_VARIABLE])
    beats = [read_beat(heartbeat_file(state, rank)) for rank in _ranks(run)]
    return max((beat.steps for beat in beats if beat is not None), default=0)


def _cause_of_command(run: HostRun, ended: Ended) -> Cause:
    """The cause by what the command itself said."""
    code_folder = str(run.container.code)
    if run.task.strategy == "none":
        ends = [RankEnd(run.container.node_rank, ended.exit_code, ended.time, ended.stderr)]
        found = root_cause(ends, code_folder)
        if found is not None:
            return found
    return Cause(None, ended.time, ended.exit_code, judge(ended.stderr, ended.exit_code, code_folder))
