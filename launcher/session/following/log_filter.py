"""Which log lines are shown: of a host, of a rank, that match, since a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from launcher.backends.interface import JobStatus, LogLine
from launcher.cluster.sagemaker_names import HOST_NAME, host_name
from launcher.diagnosis.record import LogRecord
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.values import parse_duration
from launcher.text.controls import without_controls
from launcher.text.line_length import LONGEST_LINE
from launcher.text.line_origin import Origin, origin_of


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines to show: those that fulfil all conditions; None is no condition.

    `hosts` are names such as `algo-2`: the lines of their streams, and those that mpirun collected from them
    into another host's. `rank` is a global rank, `pattern` is searched in the text, and `since` is in seconds
    since the epoch. `processes_per_host` gives local ranks, and unmarked lines of hosts with one process,
    their global rank.
    """

    hosts: frozenset[str] | None = None
    rank: int | None = None
    pattern: re.Pattern[str] | None = None
    since: float | None = None
    processes_per_host: int | None = None

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The lines that fulfil every condition, in their order."""
        return [line for line in lines if self.matches(line)]

    def rest(self) -> list[LogLine]:
        """Nothing: each line is judged by itself."""
        return []

    def matches(self, line: LogLine) -> bool:
        """Whether a line fulfils every condition."""
        if self.since is not None and line.time < self.since:
            return False
        if self.hosts is not None and line.host not in self.hosts and _origin(line).host not in self.hosts:
            return False
        if self.rank is not None and rank_of(line, self.processes_per_host) != self.rank:
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def log_filter(
    job: JobStatus,
    *,
    hosts: Sequence[str | int] = (),
    rank: int | None = None,
    grep: str | None = None,
    since: str | None = None,
) -> LogFilter:
    """The filter of a job's lines by what a person asks for; a host is `algo-2` or its number.

    Raises Refusal for a host or a rank that the job does not have, and for an expression or a time that is
    none.
    """
    if rank is not None:
        check_rank(rank, job.processes_per_host, job.hosts)
    return LogFilter(
        hosts=frozenset(_host(job, each) for each in hosts) if hosts else None,
        rank=rank,
        pattern=compile_pattern(grep) if grep else None,
        since=parse_since(since, datetime.now().astimezone()).timestamp() if since else None,
        processes_per_host=job.processes_per_host,
    )


def check_rank(rank: int, processes_per_host: int | None, hosts: int | None) -> None:
    """Raise Refusal for a rank that a job of so many hosts does not have; what is not known forbids none."""
    world = processes_per_host * hosts if processes_per_host and hosts else None
    if rank < 0 or (world is not None and rank >= world):
        has = f": it has {hosts} hosts with {processes_per_host} processes each" if world else ""
        raise Refusal(
            f"the job has no rank {rank}{has}.",
            f"Give a rank from 0 to {world - 1}." if world else "Give a rank from 0 on.",
        )


def _host(job: JobStatus, given: str | int) -> str:
    host = host_name(given) if isinstance(given, int) or given.isdecimal() else given
    if job.hosts and host not in set(map(host_name, range(1, job.hosts + 1))):
        raise Refusal(f"{job.name} has no host {given}.", f"Give {host_name(1)} to {host_name(job.hosts)}.")
    return host


def rank_of(line: LogRecord, processes_per_host: int | None = None) -> int | None:
    """The global rank that printed a line, None where the line does not tell.

    Hosts have their ranks in the order of their numbers, as the boot and the toolkit give them.
    """
    origin = _origin(line)
    if origin.rank is not None or processes_per_host is None:
        return origin.rank
    host = HOST_NAME.fullmatch(origin.host or "") or HOST_NAME.fullmatch(line.host)
    local_rank = 0 if processes_per_host == 1 else origin.local_rank
    if host is None or local_rank is None:
        return None
    return (int(host[1]) - 1) * processes_per_host + local_rank


def _origin(line: LogRecord) -> Origin:
    return origin_of(without_controls(line.text[:LONGEST_LINE]))


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression of `--grep`; raises Refusal for a text that is not one."""
    try:
        return re.compile(text)
    except re.error as error:
        raise Refusal(
            f"--grep {text!r} is not a regular expression: {error}.", "Escape special characters with \\."
        ) from None


def parse_since(text: str, now: datetime) -> datetime:
    """`10m`, `2h30m`, `7d` before now, or a time such as 2026-08-20T11:30, in `now`'s zone unless it has one.

    `now` is this machine's time: a span is only as right as its clock, a time with a zone is not affected.
    Raises Refusal for anything else.
    """
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(
            f"--since {text!r} is neither a span nor a time.", "Write it like 10m, 7d or 2026-08-20T11:30."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo or UTC)
