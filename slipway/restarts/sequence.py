"""Starts of the ranks, one after the other, until one succeeds or may not be repeated."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slipway.failure import exit_status
from slipway.gate.gpus import judge_gpus
from slipway.gate.machine import read_nvidia
from slipway.hosts.assembly import Assembly
from slipway.processes import StopRequest
from slipway.rendezvous import Rendezvous
from slipway.restarts.agreement import all_ends, take_leave
from slipway.restarts.causes import HARDWARE, JobEnd, RanksEnd, decide, end_of_job
from slipway.restarts.start import StartEnd, newest_checkpoint, start_ranks
from slipway.starting import HostRun

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
        one = start_ranks(_numbered(run, number), number, assembly, stop)
        if not run.task.restarts or stop.at is not None:
            return LastStart(one)
        told = all_ends(assembly, number, _told(run, one, time.monotonic() - began), stop)
        if told is None:
            return LastStart(one)
        if not told.ends:
            take_leave(assembly, number)
            return LastStart(one)
        end = end_of_job(told.ends)
        decision = decide(end, before, run.task.restarts)
        why = told.silent or decision.why
        if told.silent or not decision.again:
            take_leave(assembly, number)
            return LastStart(one, _failure(end, why, number, assembly.current))
        before.append(end)
        _say(_line(end, decision.why, number + 1, run.task.restarts))
        run = _moved(run, told.ends[assembly.hosts[0]].port)


def _told(run: HostRun, one: StartEnd, lasted: float) -> RanksEnd:
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


def _failure(end: JobEnd, why: str, restarts: int, host: str) -> JobFailure:
    """What all hosts write; the last line of the log says it too, on the host of the cause in full."""
    cause = end.cause
    text = cause.text or f"NCCL008 the ranks on {end.host} ended, and nobody says why"
    headline, _, rest = text.partition("\n")
    counted = "1 restart" if restarts == 1 else f"{restarts or 'no'} restarts"
    note = f"(after {counted}, and not started again: {why})"
    _say(f"{headline} {note}" if host == end.host else f"this host's ranks are not started again: {why}")
    whole = "\n".join(part for part in (headline, note, rest) if part)
    return JobFailure(whole, exit_status(cause.exit_code), cause.time)


def _line(end: JobEnd, why: str, number: int, allowed: int) -> str:
    headline = end.cause.text.partition("\n")[0] or f"the ranks on {end.host} ended"
    point = f"step {end.checkpoint}" if end.checkpoint >= 0 else "none"
    return (
        f"restart {number} of {allowed}: after {end.cause.lasted:.0f} s and {end.steps} steps {headline}; "
        f"{why} (newest complete checkpoint: {point})"
    )


def _numbered(run: HostRun, number: int) -> HostRun:
    """The run as start `number` has it: what its ranks print lies beside that of the first."""
    if number == 0:
        return replace(run, environment={**run.environment, ATTEMPT_VARIABLE: "0"})
    return replace(
        run,
        environment={**run.environment, ATTEMPT_VARIABLE: str(number)},
        logs=run.container.logs / f"restart-{number}",
    )


def _moved(run: HostRun, port: int) -> HostRun:
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


def _say(text: str) -> None:
    print(f"slipway: {text}", file=sys.stderr, flush=True)
