"""Who printed a log line, and when, as the line's own prefixes tell.

Prefixes stack, in any order: `[1,23]<stdout>:` (mpirun), `[23]<stdout>:` (horovodrun), `[rank3]:` (torch),
`[default3]:` and, of `--role trainer`, `[trainer3]:` (torchrun; the 3 is the local rank),
`algo-1-ABCDE_1  | ` and `trainer-1  | ` (docker compose), behind a time `stderr F ` (the files of Kubernetes'
nodes), `10.0.0.1: ` (pdsh), `gpu017 ` or `gpu017: ` where `[rank3]:` follows,
`[pod/trainer-0/pytorch] ` (kubectl logs --prefix), `train-a/algo-2-1763724000 ` (aws logs tail),
`(RayTrainWorker pid=951, ip=10.0.0.2) ` (Ray), `algo-1:126:199 [5] ` (NCCL; the 5 is the local device, not
the rank), ISO times, a clock's time with or without an American or syslog's date (`ts` of moreutils prints
`Dec 31 23:59:59 `), seconds since the epoch, the kernel's seconds, and behind a time what journald and syslog
write, `gpu017 train.sh[1234]: `.

This is the one reader of them: the diagnosis, `launch logs --rank` and `--host`, the progress of a followed
job and the colours on the terminal all ask here, so that a line has the same rank everywhere.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple


class Origin(NamedTuple):
    """Where a line comes from; None is what it does not tell.

    `rank` is global and `local_rank` counts on its host; `host` is as printed, `algo-2` where it can be;
    `device` is NCCL's local device. The message begins at `start`. `mark` is where in the text the rank
    stands, from and to. `writer` tells apart the processes whose lines are mixed in one stream.
    """

    rank: int | None
    local_rank: int | None
    host: str | None
    device: int | None
    start: int
    mark: tuple[int, int] | None
    writer: int | str | None


_NO_HOST = r"(?<!\.py)(?<!Error)(?<!Exception)(?<!Warning)(?<!Failure)"
"""What ends a script's name, or an exception's with its module, and not the name of a host."""

_NO_ROLE = r"(?:step|epoch|iter|batch|round|phase|stage|gpu|cuda|device|node|line|level|rank)"
"""How other numbers in brackets are called, which are no local ranks."""

PREFIX = re.compile(
    r"\s*+(?:"
    r"(?P<mark>"
    r"\[(?:\d+,(?:mpirank:)?)?(?P<mpi>\d{1,6})(?:,(?P<mpihost>[\w.-]+))?\]<std(?:out|err|diag)>:?"
    r"|(?:\[rank[ =]?|rank=)(?P<rank>\d{1,6})(?:(?<=\d)\]:?|:| \||(?= (?![\w-]+=)))"
    r"|\[(?:default|(?!" + _NO_ROLE + r")[A-Za-z][A-Za-z_-]{0,30})(?P<local>\d{1,6})\]:"
    r") ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]"
    r"|\[ *\d+\.\d+\] |\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\] "
    r"|\[?(?:[A-Z][a-z]{2} [ \d]\d |\d{1,2}/\d{1,2}/\d{4},? )?"
    r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?: [AP]M)?\]?[ \t]"
    r"|(?<=\d\d:\d\d:\d\d )(?P<unit>[A-Za-z][\w.-]{0,100}) [\w.@/-]{1,60}\[\d{1,8}\]: "
    r"|\d{10}\.\d{3,9}[ \t]"
    r"|(?<=[\dZ] )std(?:out|err) [FP] "
    r"|(?:\w+-)?(?P<algo>algo-\d+)-\w+(?:_\d+)? *\| ?"
    r"|(?P<compose>[A-Za-z][\w.-]{0,80}[-_]\d{1,4}) +\| "
    r"|\[pod/(?P<pod>[\w.-]+)(?:/[\w.-]+)?\] "
    r"|(?:[\w.-]+/)(?P<tail>algo-\d+)-\d{6,} "
    r"|\([\w.:<>]+ pid=(?P<pid>\d{1,9})(?:, ip=(?P<ip>[\da-fA-F.:]+))?\) ?"
    r"|(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[(?P<device>\d+)\] "
    r"|(?P<pdsh>(?:(?:\d{1,3}\.){3}\d{1,3}|algo-\d+|(?=[^\s:]*\d)(?!mount\.)[A-Za-z]\w*[-.][\w.-]+"
    + _NO_HOST
    + ")(?=: )"
    r"|(?=\S*\d)[A-Za-z][\w.-]{0,100}(?=:? \[rank ?\d)):? "
    r")"
)
_MOST_PREFIXES = 8
_WITHIN = ("mpi", "mpihost", "rank", "local", "device")
"""Groups that tell no more of who printed a line than the one around them, or nothing."""

_PROCESS_GROUP = re.compile(
    r"\s*(?:\[[EWIF][^\]]*\] ?)?(\[(?:PG (?:ID )?(?:0|default_pg) [^\]\[]*)?Rank (\d{1,6})\])"
)
"""How PyTorch's process groups begin a line of theirs, after glog's header: the rank in the group. In the
group of all ranks it is the global one, in others it tells nobody. It belongs to the message and counts where
no prefix has a rank."""


def origin_of(text: str) -> Origin:
    """The origin of a line without control characters (see `without_controls`).

    Spaces before a prefix go with it, the indentation after the last one belongs to the message.
    """
    rank = local_rank = host = device = mark = sender = process = None
    start = 0
    for _ in range(_MOST_PREFIXES):
        match = PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
        if match.lastindex is None:
            continue  # a time
        marked, mpi, mpi_host, torch, local, *senders, pid, ip, nccl, number, pdsh = match.groups()
        sent_by = next(filter(None, senders), None)
        if marked is not None:
            if local is None:
                rank, mark = int(mpi or torch), match.span("mark")
            else:
                local_rank, mark = int(local), mark or match.span("mark")
        sender = sent_by or ip or pdsh or sender
        process = pid or process
        host = mpi_host or nccl or sent_by or ip or pdsh or host
        if number is not None:
            device = int(number)
    writer = rank if rank is not None else _writer(sender, process, local_rank)
    if writer is None and (group := _PROCESS_GROUP.match(text, start)):
        rank, mark = int(group[2]), group.span(1)
    return Origin(rank, local_rank, host, device, start, mark, writer)


def spans_of_origin(text: str) -> tuple[tuple[int, int], ...]:
    """Where in a line's prefixes it stands who printed it: from and to, of the rank, host or process."""
    spans: list[tuple[int, int]] = []
    start = 0
    for _ in range(_MOST_PREFIXES):
        match = PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
        spans += [
            match.span(name) for name, value in match.groupdict().items() if value and name not in _WITHIN
        ]
    if group := _PROCESS_GROUP.match(text, start):
        spans.append(group.span(1))
    return tuple(spans)


def _writer(sender: str | None, process: str | None, local_rank: int | None) -> int | str | None:
    """Who wrote a line without a rank: the local rank, among those of the host that another program names."""
    if sender is None and process is None:
        return local_rank
    return "/".join(str(each) for each in (sender, process, local_rank) if each is not None)


_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d{0,3})?(Z|[+-]\d\d:?\d\d(?=[\s\],]))?"
)
_GLOG = re.compile(r"(?:^|\[)[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")


def printed_time(text: str) -> tuple[str, float] | None:
    """The kind of clock and the seconds on it that a line prints, or None: only like clocks compare.

    glog's lines have no year; PyTorch writes the month without a leading zero. A time without its distance
    from UTC is taken for UTC, as SageMaker's hosts have it.
    """
    if match := _GLOG.search(text):
        return _seconds("glog", f"2000-{int(match[1]):02}-{match[2]}", match[3], match[4])
    if match := _ISO.search(text):
        return _seconds("iso", match[1], match[2], match[3], match[4])
    return None


def _seconds(
    clock: str, day: str, time: str, fraction: str | None, zone: str | None = None
) -> tuple[str, float] | None:
    whole = _whole_seconds(f"{day}T{time}{'+00:00' if zone in (None, 'Z') else zone}")
    return None if whole is None else (clock, whole + float(f"0.{fraction or 0}"))


@lru_cache(maxsize=256)
def _whole_seconds(moment: str) -> float | None:
    """Seconds since the epoch; a log has many lines of one second."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return None
