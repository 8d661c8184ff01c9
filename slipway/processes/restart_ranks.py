"""Starts of the ranks, one after the other, until one succeeds or may not be repeated.

All hosts start them again or none: they tell each other how a start ended, within bounds, and decide alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.container import Rendezvous
from slipway.errors import say
from slipway.failure import (
    Cause,
    RankEnd,
    cause_by_loss,
    cause_by_world,
    exit_status,
    judge_output,
    root_cause,
)
from slipway.gate.judge_host import judge_gpus
from slipway.gate.probe_host import read_nvidia
from slipway.host_assembly import Assembly, FirstHostSilent
from slipway.output_signatures import lines_of
from slipway.processes.rank_connections import Meeting, meeting_of
from slipway.processes.supervise import Ended, StopRequest, send_signal, workers
from slipway.processes.torchrun import HostRun, call_all, run_alone, run_under_torchrun
from slipway.ranks.attendant import STATE_VARIABLE, heartbeat_file, read_beat
from slipway.saving.stored_checkpoints import stored_checkpoints
from slipway.watchdog.judge_stall import StallVerdict, judge_ends, judge_timeout
from slipway.watchdog.rank_views import GONE, RankView, in_backward, last_stack_of, text_reader, user_lines
from slipway.watchdog.watch_ranks import Watchdog, watching

ATTEMPT_VARIABLE = "SLIPWAY_ATTEMPT"
"""Tells the script how often the ranks have been started before in this job: 0, then 1 and so on."""


@dataclass(frozen=True)
class JobFailure:
    """Why the job failed, as all its hosts agreed: the failure file's text, and this host's exit code."""

    text: str
    exit_code: int
    time: float


@dataclass(frozen=True)
class LastStart:
    """The start after which there was no other; `failure` where the hosts agreed on one, which they do in a
    job that may be restarted."""

    end: StartEnd
    failure: JobFailure | None = None


def run_ranks(run: HostRun, assembly: Assembly, stop: StopRequest) -> LastStart:
    """Run this host's ranks to their last end, with as many restarts as the task allows."""
    before: list[JobEnd] = []
    while True:
        number, began = len(before), time.monotonic()
        one = start_ranks(_run_of_start(run, number), number, assembly, stop)
        if not run.task.restarts or stop.at is not None:
            return LastStart(one)
        told = all_ends(assembly, number, _ranks_end(run, one, time.monotonic() - began), stop)
        if told is None:
            return LastStart(one)
        if not told.ends:
            take_leave(assembly, number)
            return LastStart(one)
        end = end_of_job(told.ends)
        decision = decide_restart(end, before, run.task.restarts)
        why = told.silent or decision.why
        if told.silent or not decision.again:
            take_leave(assembly, number)
            return LastStart(one, _agreed_failure(end, why, number, assembly.current))
        before.append(end)
        say(_restart_line(end, decision.why, number + 1, run.task.restarts))
        run = _with_rendezvous_on(run, told.ends[assembly.hosts[0]].port)


def _ranks_end(run: HostRun, one: StartEnd, lasted: float) -> RanksEnd:
    """What this host tells of the end of its ranks."""
    end = RanksEnd(
        exit_code=one.ended.exit_code,
        code=None,
        text="",
        message="",
        place=None,
        weight=0,
        time=one.ended.time,
        stalled=False,
        lasted=lasted,
        steps=one.steps,
        checkpoint=newest_checkpoint(run),
        port=_free_port() if run.container.node_rank == 0 else 0,
    )
    if one.ended.exit_code == 0:
        return end
    host = run.container.current_host
    for found in judge_gpus(host, read_nvidia(run.environment), 0, None).findings:
        if found.code in HARDWARE:
            text = f"{found.code} {host}: {found.text}"
            return replace(end, code=found.code, text=text, message=found.text)
    if one.verdict is not None:
        verdict = one.verdict
        return replace(end, code=verdict.code, text=verdict.report, message=verdict.text, stalled=True)
    if one.cause is not None:
        cause, evidence = one.cause, one.cause.evidence
        return replace(
            end,
            exit_code=cause.exit_code or end.exit_code,
            code=evidence.code,
            text=cause.text(host),
            message=evidence.message,
            place=evidence.place,
            weight=2 * evidence.weight[0] + evidence.weight[1],
            time=cause.time,
        )
    return end


def _agreed_failure(end: JobEnd, why: str, restarts: int, host: str) -> JobFailure:
    """What all hosts write; the last line of the log says it too, on the host of the cause in full."""
    cause = end.cause
    text = cause.text or f"NCCL008 the ranks on {end.host} ended, and nobody says why"
    headline, _, rest = text.partition("\n")
    counted = "1 restart" if restarts == 1 else f"{restarts or 'no'} restarts"
    note = f"(after {counted}, and not started again: {why})"
    say(f"{headline} {note}" if host == end.host else f"this host's ranks are not started again: {why}")
    whole = "\n".join(part for part in (headline, note, rest) if part)
    return JobFailure(whole, exit_status(cause.exit_code), cause.time)


def _restart_line(end: JobEnd, why: str, number: int, allowed: int) -> str:
    headline = end.cause.text.partition("\n")[0] or f"the ranks on {end.host} ended"
    point = f"step {end.checkpoint}" if end.checkpoint >= 0 else "none"
    return (
        f"restart {number} of {allowed}: after {end.cause.lasted:.0f} s and {end.steps} steps {headline}; "
        f"{why} (newest complete checkpoint: {point})"
    )


def _run_of_start(run: HostRun, number: int) -> HostRun:
    """The run as start `number` has it: what its ranks print lies beside that of the first."""
    if number == 0:
        return replace(run, environment={**run.environment, ATTEMPT_VARIABLE: "0"})
    return replace(
        run,
        environment={**run.environment, ATTEMPT_VARIABLE: str(number)},
        logs=run.container.logs / f"restart-{number}",
    )


def _with_rendezvous_on(run: HostRun, port: int) -> HostRun:
    """The run with its rendezvous on another port: what is left of the last start cannot disturb it there."""
    moved: Mapping[str, str] = {"MASTER_PORT": str(port), "SM_MASTER_PORT": str(port)}
    known = {name: value for name, value in moved.items() if name in run.environment}
    return replace(
        run,
        rendezvous=Rendezvous(run.rendezvous.address, port),
        environment={**run.environment, **known},
    )


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


# One start of this host's ranks, from their first process to what their end says.


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
    world = len(assembly.hosts) * len(_ranks_here(run))
    start = run_under_torchrun if run.task.strategy == "torchrun" else run_alone
    verdict = standing = None
    with watching(run.task, run.container, run.environment, assembly, stop, number) as watchdog:
        beside += [watchdog.end_stalled, watchdog.look_at_failure] if watchdog else []
        ended, failed, losses = start(run, stop, beside=call_all(*beside))
        neighbours.close()
        if watchdog is not None:
            standing = watchdog.standing_verdict()
            verdict = watchdog.verdict if watchdog.ends else None
            if ended.exit_code == 0:
                meeting.tell_of_groups(watchdog.sizes_of_groups(world), world)
        steps, cause = _steps_made(run), None
        if ended.exit_code != 0:
            cause = root_cause(failed, str(run.container.code))
            if cause is None and not neighbours.ended:
                cause = _cause_of_command(run, ended)
            cause = cause and cause_by_world(cause_by_loss(cause, losses), failed, world)
            # Whoever waited too long says so, and whom for the watchdog knows.
            if cause is not None and cause.evidence.code in WAITED_IN_VAIN and verdict is None:
                verdict = standing or _verdict_of_ends(
                    run, failed, watchdog, stop, timed_out=cause.evidence.code == "NCCL004"
                )
    return StartEnd(ended, verdict, cause, steps, meeting)


def _verdict_of_ends(
    run: HostRun, failed: Sequence[RankEnd], watchdog: Watchdog | None, stop: StopRequest, *, timed_out: bool
) -> StallVerdict | None:
    """Whom ranks waited for that say no more than that they lost another one: said as the watchdog does."""
    if watchdog is None or stop.at is not None:
        return None
    state, code, host = Path(run.environment[STATE_VARIABLE]), run.container.code, run.container.current_host
    lost = []
    for end in failed:
        beat = read_beat(heartbeat_file(state, end.rank))
        frames = last_stack_of(line.text for line in lines_of(end.output))
        lines, steps = user_lines(frames, str(code)), beat.steps if beat is not None else 0
        view = RankView(end.rank, host, GONE, steps, ended=True, failed=True, lines=lines)
        lost.append(replace(view, waits_by_stack=in_backward(frames)))
    verdict = judge_timeout(watchdog.seen_at_failure(), text_reader(code)) if timed_out else None
    if verdict is None:
        known = {view.rank for view in lost}
        lost += [view for view in watchdog.ended_while_waiting() if view.rank not in known]
        verdict = judge_ends([*watchdog.ranks_ended_well(), *lost], text_reader(code))
    if verdict is not None:
        say(verdict.text)
    return verdict


def newest_checkpoint(run: HostRun) -> int:
    """The step of the newest complete checkpoint on this host's disk, -1 without one."""
    folder = run.environment.get("SLIPWAY_CHECKPOINT_DIR")
    found = stored_checkpoints(Path(folder)) if folder else []
    return max((one.step for one in found if one.manifest is not None), default=-1)


def _all_live(run: HostRun, command: int) -> bool:
    """Whether no rank of this host has ended, so that the command only waits. A script alone lives as long
    as its own process."""
    return run.task.strategy == "none" or len(workers(command)) >= run.task.processes_per_host


def _ranks_here(run: HostRun) -> range:
    each = 1 if run.task.strategy == "none" else run.task.processes_per_host
    first = run.container.node_rank * each
    return range(first, first + each)


def _steps_made(run: HostRun) -> int:
    state = Path(run.environment[STATE_VARIABLE])
    beats = [read_beat(heartbeat_file(state, rank)) for rank in _ranks_here(run)]
    return max((beat.steps for beat in beats if beat is not None), default=0)


def _cause_of_command(run: HostRun, ended: Ended) -> Cause:
    """The cause by what the command itself said."""
    code_folder = str(run.container.code)
    if run.task.strategy == "none":
        rank = run.container.node_rank
        ends = [RankEnd(rank, ended.exit_code, ended.time, ended.stderr, printed=ended.stdout)]
        found = root_cause(ends, code_folder)
        if found is not None:
            return found
    return Cause(None, ended.time, ended.exit_code, judge_output(ended.stderr, ended.exit_code, code_folder))


# What the hosts tell each other at the end of a start, and the bounds within which they must.


ANSWER_SECONDS = 30.0
"""From the first host that tells its end until the last must have: each has heard of it after half a second,
gives torchrun 5 s, and ends what is left of its processes within 6."""

_LEAVING_SECONDS = 3.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class StartEnds:
    """How a start ended on all hosts that answered; `silent` says who did not, empty where all did.

    No `ends` at all where every host succeeded.
    """

    ends: Mapping[str, RanksEnd]
    silent: str = ""


def failed_topic(number: int) -> str:
    """Where the hosts tell that their ranks of this start have failed."""
    return f"restarts-{number}:failed"


def all_ends(
    assembly: Assembly, number: int, own: RanksEnd, stop: StopRequest, *, seconds: float = ANSWER_SECONDS
) -> StartEnds | None:
    """Tell how this host's ranks ended in start `number`, and hear it of the others.

    The same on all hosts. A host that succeeded waits for as long as the others work. None where a stop of
    the job came meanwhile.
    """
    found: list[StartEnds] = []
    thread = threading.Thread(
        target=lambda: found.append(_all_ends(assembly, number, own, seconds)), daemon=True
    )
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS / 2)
        if stop.at is not None:
            return None
    return found[0] if found else StartEnds({}, "this host could not ask the others")


def take_leave(assembly: Assembly, number: int) -> None:
    """Before the boot ends: the first host answers the others until they have heard what they need."""
    topic = f"restarts-{number}:left"
    if len(assembly.hosts) == 1:
        return
    with contextlib.suppress(FirstHostSilent):
        if not assembly.is_first:
            assembly.post(topic, True)
            return
        until = time.monotonic() + _LEAVING_SECONDS
        while len(assembly.read(topic)) < len(assembly.hosts) - 1 and time.monotonic() < until:
            time.sleep(_POLL_SECONDS / 4)


def _all_ends(assembly: Assembly, number: int, own: RanksEnd, seconds: float) -> StartEnds:
    try:
        if own.exit_code == 0 and _all_succeed(assembly, number):
            return StartEnds({})
        assembly.post(failed_topic(number), True)
        said = assembly.exchange(f"restarts-{number}:ends", dataclasses.asdict(own), seconds)
    except FirstHostSilent as error:
        if own.exit_code == 0:
            # What it did is done; whether the others succeeded is theirs to say.
            return StartEnds({})
        return StartEnds({assembly.current: own}, f"the first host is silent: {error}")
    missing = ", ".join(assembly.missing(said))
    silent = f"{missing} did not answer within {seconds:.0f} s" if missing else ""
    return StartEnds({host: RanksEnd(**end) for host, end in said.items()}, silent)


def _all_succeed(assembly: Assembly, number: int) -> bool:
    topic = f"restarts-{number}:done"
    assembly.post(topic, True)
    while not assembly.read(failed_topic(number)):
        if len(assembly.read(topic)) == len(assembly.hosts):
            return True
        time.sleep(_POLL_SECONDS)
    return False


# Whether the ranks of a job are started again: pure, so that hosts with the same answers agree.


RESTART_AFTER: Mapping[str, str] = {
    "MEM002": "a rank was killed, and need not be again",
    "NCCL004": "a rank kept the others waiting, and need not again",
    "NCCL006": "a rank lost another one, and the connection may hold the next time",
    "NCCL008": "a host came too late, and may come in time",
    "NCCL009": "a port was taken, and the next start has another one",
}
"""Failure modes after which the same start may well succeed, as long as the job gets on. Any other, such as
an exception of the script, is given one chance: the second time at the same line it is the script's own."""

NEVER_AFTER: Mapping[str, str] = {
    "CKPT003": "the script lets one rank save alone, and would again",
    "CKPT005": "the checkpoint is another model's, and stays so",
    "CODE002": "the script would get the same arguments",
    "CODE005": "a package that is missing stays missing",
    "DATA001": "the ranks have different numbers of batches, and would again",
    "DATA005": "shared memory stays as small",
    "DISK001": "a full disk stays full",
    "DIST001": "the processes would be as many again",
    "DIST003": "the processes would be as many again",
    "HW001": "this hardware is broken, and other hosts are needed",
    "HW002": "this hardware is broken, and other hosts are needed",
    "IAM002": "the role's permissions stay what they are",
    "IMG002": "the driver and the image stay what they are",
}
"""Failure modes that the same start on the same hosts would have again."""

HARDWARE = ("HW001", "HW002")
"""Those that end the job so that the launcher takes other hosts."""

_NEVER_BY_EXCEPTION: Mapping[str, str] = {
    "ImportError": "the same import would fail again",
    "ModuleNotFoundError": "the same import would fail again",
    "SyntaxError": "the script stays what it is",
    "IndentationError": "the script stays what it is",
}

_KIND = re.compile(r"[\w.]{1,200}(?=:|\Z)")


@dataclass(frozen=True)
class RanksEnd:
    """How the ranks of one host ended.

    `code` is the failure mode, None where they did not fail by themselves; `text` what the failure file is to
    say of it, `message` the exception or what else was said, `place` where. `weight` and `time` tell a cause
    from its consequences (`slipway.output_signatures.SYMPTOM`). `stalled` is a verdict of the watchdog.
    `lasted` is in seconds. `steps` are those of the rank that made most, 0 where nobody counts them;
    `checkpoint` is the step of the newest complete one here, -1 without one. `port` is free on this host.
    """

    exit_code: int
    code: str | None
    text: str
    message: str
    place: str | None
    weight: int
    time: float
    stalled: bool
    lasted: float
    steps: int
    checkpoint: int
    port: int

    @property
    def same_as(self) -> tuple[str, str, str | None]:
        """What two ends of the same kind have in common: the code, the exception's name, and its line."""
        kind = _KIND.match(self.message)
        return self.code or "", kind[0] if kind else self.message, self.place


@dataclass(frozen=True)
class JobEnd:
    """How one start of the job ended: its root cause, on which host, and how far it came."""

    host: str
    cause: RanksEnd
    steps: int
    checkpoint: int


@dataclass(frozen=True)
class RestartDecision:
    """Whether there is another start, and why."""

    again: bool
    why: str


def end_of_job(ends: Mapping[str, RanksEnd]) -> JobEnd:
    """What the hosts' ends come to, at least one of them a failure.

    Broken hardware explains everything else, and a verdict of the watchdog all that followed it.
    """
    failed = [(host, end) for host, end in ends.items() if end.exit_code != 0]

    def order(named: tuple[str, RanksEnd]) -> tuple[bool, bool, bool, int, float, str]:
        host, end = named
        broken = end.code in HARDWARE
        return not broken, not end.stalled, end.code is None, end.weight, end.time, host

    host, cause = min(failed, key=order)
    return JobEnd(
        host,
        cause,
        max(end.steps for end in ends.values()),
        max(end.checkpoint for end in ends.values()),
    )


def decide_restart(end: JobEnd, before: Sequence[JobEnd], allowed: int) -> RestartDecision:
    """Whether the job is started once more after this end; `before` are those of its earlier starts, and
    `allowed` how many restarts there may be in all."""
    cause, code = end.cause, end.cause.code or ""
    never = NEVER_AFTER.get(code) or _NEVER_BY_EXCEPTION.get(cause.same_as[1])
    if never is not None:
        return RestartDecision(False, never)
    if len(before) >= allowed:
        return RestartDecision(
            False, f"{allowed} {'restart was' if allowed == 1 else 'restarts were'} allowed"
        )
    if code not in RESTART_AFTER and any(cause.same_as == earlier.cause.same_as for earlier in before):
        where = f" at {cause.place}" if cause.place else ""
        return RestartDecision(False, f"the same failed{where} before")
    if before and not _came_further(end, before):
        return RestartDecision(
            False, "it came no further than the start before: no newer checkpoint, no more steps"
        )
    return RestartDecision(True, RESTART_AFTER.get(code, "this may have been once"))


def _came_further(end: JobEnd, before: Sequence[JobEnd]) -> bool:
    return end.checkpoint > max(each.checkpoint for each in before) or end.steps > before[-1].steps


# Whether the ranks of another host have failed, while those of this one may still wait for them.


POLL_SECONDS = 0.5
"""Between two questions: the first host answers 128 a second of 64 hosts."""

PATIENCE_SECONDS = 5.0
"""So long torchrun has to end where a rank of its own has died too, so that its report says which."""


class Neighbours:
    """Asks beside the ranks, in a thread of its own, and ends them where another host's have failed.

    `ended` says whether it did: then how they ended says nothing of them. `heard` is whether there was a
    reason to.
    """

    def __init__(
        self,
        assembly: Assembly,
        topic: str,
        complete: Callable[[int], bool],
        *,
        poll: float = POLL_SECONDS,
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topic` is where hosts tell that their ranks have failed; `complete` whether all ranks below the
        command's process live. `poll` and `patience` are in seconds."""
        self.heard = self.ended = False
        self._assembly, self._topic, self._complete = assembly, topic, complete
        self._poll, self._patience, self._clock = poll, patience, clock
        self._until: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="neighbours", daemon=True)

    def start(self) -> None:
        """Ask from now on; where a host is alone there is nobody to ask."""
        if len(self._assembly.hosts) > 1:
            self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def end_with_them(self, command: int) -> None:
        """Called while the command runs: kill it where others have failed and it would only wait."""
        if not self.heard or self.ended:
            return
        now = self._clock()
        self._until = self._until or now + self._patience
        if now >= self._until or self._complete(command):
            self.ended = True
            send_signal(command, signal.SIGKILL)

    def _ask(self) -> None:
        while not self.heard and not self._closed.wait(self._poll):
            try:
                self.heard = bool(self._assembly.read(self._topic))
            except FirstHostSilent:
                # Without it nobody can start again, and its ranks have most likely gone with it.
                self.heard = True
