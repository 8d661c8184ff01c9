"""What the path of a log tells: whether it is one, the host, the rank, and what to call its stream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

_PACKED = re.compile(r"\.(?:gz|zst|zip)$")
_LOG = re.compile(r"^[^.]+$|\.(?:log|txt|out|err)(?:\.\d{1,4})?$")
_MAYBE = re.compile(r"\.(?:jsonl?|ndjson|csv|pickle|pkl|bin|recorder|stacks)$")
_EXPORTED = re.compile(r"^\d{6}(?:\.gz)?$")
"""How an export of CloudWatch Logs to S3 calls the pieces of a stream, in a folder with the stream's name."""

_OF_TORCHRUN = re.compile(r"(?:^|/)attempt_\d{1,4}/(\d{1,6})/std(?:out|err)\.log")
"""Where torchrun's `--log-dir` has what a process printed (torch/distributed/elastic/multiprocessing/api.py,
DefaultLogsSpecs); the number is the local rank."""
_HOSTS_FOLDER = re.compile(r"^([^/]+)/[^/]+/attempt_\d{1,4}/\d{1,6}/")
_RANK = re.compile(r"(?:^|[/_.-])rank[_-]?(\d{1,6})(?=[/_.-]|$)", re.I)


def is_log(name: str) -> bool:
    """Whether a file in a folder is a log by its name."""
    return bool(_LOG.search(_PACKED.sub("", name)))


def may_be_log(name: str) -> bool:
    """Whether it is one if its content is: other things are kept in such files, too."""
    return bool(_MAYBE.search(_PACKED.sub("", name)))


def is_piece(path: PurePath) -> bool:
    """Whether it is a piece of an exported stream, which goes on in the next one of its folder."""
    return bool(_EXPORTED.match(path.name))


def rank_in(path: str) -> int | None:
    """The global rank that a path names, as in `logs/rank_3.log`."""
    numbers = _RANK.findall(path)
    return int(numbers[-1]) if numbers else None


def local_rank_in(path: str) -> int | None:
    """The local rank whose output torchrun's log folder has there."""
    match = _OF_TORCHRUN.search(path)
    return int(match[1]) if match else None


def hosts_folders(names: Iterable[str]) -> frozenset[str]:
    """The folders of hosts, each with torchrun's log folder of that host, by the names that `short_names`
    gives: `gpu-2` of `gpu-2/none_x7/attempt_0/3/stderr.log`."""
    return frozenset(match[1] for name in names if (match := _HOSTS_FOLDER.match(name)))


def short_names(paths: Sequence[PurePath]) -> dict[PurePath, str]:
    """The end of each path that tells it from the others, such as `left.log` or `0/stderr.log`."""
    names: dict[PurePath, str] = {}
    waiting = list(dict.fromkeys(paths))
    for length in range(1, max((len(path.parts) for path in waiting), default=0) + 1):
        ends = Counter("/".join(path.parts[-length:]) for path in waiting)
        for path in waiting:
            end = "/".join(path.parts[-length:])
            if ends[end] == 1 or len(path.parts) <= length:
                names[path] = end
        waiting = [path for path in waiting if path not in names]
    return names
