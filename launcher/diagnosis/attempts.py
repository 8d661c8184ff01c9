"""Where a log says that the job was started again, and where it says that training ended well.

Texts: torch/distributed/elastic/agent/server/api.py of PyTorch 1.10 to 2.13 (at LOGLEVEL=INFO); the first
line of the boot (slipway/boot.py) and of sagemaker-training-toolkit, which every start of a container prints
once; SageMaker's secondary status; the ends of Lightning, Hugging Face's Trainer and what scripts print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from launcher.diagnosis.record import LogRecord, Record

LITERALS = (
    "will restart worker group",
    "restarting worker group",
    "restart_count=",
    "secondarystatus: restarting",
    ", host 1 of ",
    "invoking user script",
    "`trainer.fit` stopped",
    "train_runtime",
    "training complete",
    "training finished",
    "finished training",
    "training is complete",
    "training done",
)
"""Lower-case parts of the lines that say so, as in the rows of the signatures."""

_RESTARTING = "SecondaryStatus: Restarting"
_AGAIN = re.compile(
    r"will restart worker group|\bRestarting worker group\b|\brestart_count=[1-9]"
    r"|SecondaryStatus: Restarting\b"
)
_BY_BOOT = re.compile(r"^slipway: \S{1,100}, host 1 of \d{1,6}: ")
_BY_TOOLKIT = re.compile(r"\bInvoking user script\s*$")
_ENDED_WELL = re.compile(
    r"`Trainer\.fit` stopped: `max_(?:epochs|steps)|['\"]train_runtime['\"]?\s?:"
    r"|\btraining (?:is )?(?:completed?|finished|done)\b|\bfinished training\b",
    re.I,
)
_NOT = re.compile(r"\b(?:not|never|until|before|when|after|once|unless|if)\b", re.I)


_OF_ATTEMPT = re.compile(r"^(?P<before>.*)/attempt_(?P<number>\d{1,4})/")


def superseded(streams: Iterable[str]) -> frozenset[str]:
    """The streams, by their paths, in torchrun's folders of attempts that another attempt followed."""
    attempts = [
        (name, match["before"], int(match["number"]))
        for name in streams
        if (match := _OF_ATTEMPT.match(name))
    ]
    last: dict[str, int] = {}
    for _, before, number in attempts:
        last[before] = max(number, last.get(before, 0))
    return frozenset(name for name, before, number in attempts if number < last[before])


def says_started_again(text: str) -> bool:
    """Whether a line says that the ranks, or the job, are started once more."""
    return _AGAIN.search(text) is not None


def cut_at_restart(lines: Iterable[LogRecord], at: float) -> Iterator[LogRecord]:
    """The lines, and in each stream where the place started the hosts anew a line that says so: before its
    first line from that time on, else at its end."""
    open_streams: dict[str, str] = {}
    cut: set[str] = set()
    for line in lines:
        if line.stream not in cut:
            if line.time is not None and line.time >= at:
                cut.add(line.stream)
                if open_streams.pop(line.stream, None) is not None:
                    yield Record(at, line.host, _RESTARTING, line.stream)
            else:
                open_streams[line.stream] = line.host
        yield line
    for stream, host in open_streams.items():
        yield Record(at, host, _RESTARTING, stream)


def is_first_line(text: str) -> bool:
    """Whether a line is one that a container prints once, at its start: the second one is another start."""
    return _BY_BOOT.search(text) is not None or is_toolkits_start(text)


def is_toolkits_start(text: str) -> bool:
    """Whether the images' toolkit says that it starts the script, whose end it always tells as well."""
    return _BY_TOOLKIT.search(text) is not None


def says_ended_well(text: str) -> bool:
    """Whether a script or its library says that training came to its end."""
    match = _ENDED_WELL.search(text)
    return match is not None and not _NOT.search(text, 0, match.start())
