"""The kernel's own log: `dmesg`, `dmesg -T`, `journalctl -k`, /var/log/kern.log and messages.

Texts: the Linux kernel's mm/oom_kill.c of 4.19 to 6.12 and NVIDIA's driver ("NVRM: Xid"); the clocks are the
kernel's seconds since its start (`[ 8123.4]`, `[  +0.000316]` of `dmesg -d`), ctime (`dmesg -T`), syslog's
without a year, and ISO's (`dmesg --time-format iso`, journalctl -o short-iso, rsyslog).

It tells of the whole host and of all its days, so what it says is weighed below what the job's own lines say
plainly, and what it dates long before the job's end is only told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.matching import rows_matching
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.record import parse
from launcher.diagnosis.sighting import Sighting, sighting_of
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import hardware
from launcher.text.line_length import LONGEST_LINE

CLOCK = "kernel"
"""The kind of the times, in seconds since the epoch, where the lines have a date with a year."""

BEFORE_THE_END = 7200.0
"""Seconds before a job's last output in which a fault counts as its cause: process groups wait for half an
hour at most by default, and a rank that was killed ends its job at once."""

_WITHOUT_YEAR = "kernel, without a year"
"""The kind of the times of syslog's lines: seconds from the beginning of a leap year."""

_LEAP_YEAR = 2000
_AFTER_THE_END = 600.0
_FEWEST = 0.6
_MOST_SIGNS = 200

_KERNEL = re.compile(
    r"(?:<\d{1,3}>)?(?:\[ *\d{1,9}\.\d{6}\] |\[ {1,2}\+\d{1,6}\.\d{6}\] "
    r"|\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    r"(?:,\d{6}[+-]\d\d:\d\d |[.,]?\d{0,6}(?:Z|[+-]\d\d:?\d\d) (?=\S{1,100} kernel: ))"
    r"|\w{3} [ \d]\d \d\d:\d\d:\d\d (?=\S{1,100} kernel: ))"
)
_BEHIND = re.compile(r"(?:(?P<host>[\w.-]{1,100}) kernel: )?(?:\[ *\d{1,9}\.\d{6}\] )?")
_CTIME = re.compile(r"\[(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.,]?\d{0,6}(Z|[+-]\d\d:?\d\d)")
_SYSLOG = re.compile(r"(?:<\d{1,3}>)?(\w{3} [ \d]\d \d\d:\d\d:\d\d) ")
_MODES = (hardware.ECC_ERROR, hardware.GPU_FAULT, hardware.HOST_OUT_OF_MEMORY)


def is_kernel_log(head: bytes) -> bool:
    """Whether most lines of a file's beginning are the kernel's."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    whole = lines[:-1] if len(lines) > 1 else lines
    found = 0
    for number, line in enumerate(whole):
        if _KERNEL.match(line) is not None:
            found += 1
        elif found + len(whole) - number - 1 < _FEWEST * len(whole):
            return False  # as of nearly all logs, after less than half of their beginning
    return found > 0 and found >= _FEWEST * len(whole)


def read_kernel_log(text: str, host: str | None = None) -> FileEvidence:
    """What the kernel says of faults of GPUs and of processes that it killed for want of memory."""
    signs: list[Sighting] = []
    for raw in text.splitlines():
        if len(signs) < _MOST_SIGNS and (sign := _sign(raw[:LONGEST_LINE], host)) is not None:
            signs.append(sign)
    # Who was killed stands below the line that says that somebody will be.
    return FileEvidence(of_hosts=tuple(sorted(signs, key=lambda sign: "process" not in sign.captured)))


def timely(signs: Iterable[Sighting], last_output: float | None, *, ended_well: bool) -> Iterator[Sighting]:
    """What records of hosts say, as advice what cannot be why the job failed: what is dated at another time
    than the job's end, or all where `ended_well` says that training came to its end. `last_output` is in
    seconds since the epoch, None where no line has a date. A date without a year is of the one nearest to it.
    """
    for each in signs:
        sign = _dated(each, last_output)
        after = None if sign.time is None or last_output is None else sign.time - last_output
        elsewhen = after is not None and not -BEFORE_THE_END <= after <= _AFTER_THE_END
        what = f"{sign.what}, at another time than the job's end" if elsewhen else sign.what
        yield replace(sign, role=LineRole.ADVISORY, what=what) if elsewhen or ended_well else sign


def _sign(raw: str, host: str | None) -> Sighting | None:
    stamp = _KERNEL.match(raw)
    if stamp is None:
        return None
    behind = _BEHIND.match(raw, stamp.end())
    line = parse(raw[behind.end() if behind else stamp.end() :])
    row = next(((row, got) for row, got in rows_matching(line.text) if row.mode in _MODES), None)
    if row is None:
        return None
    where = behind["host"] if behind and behind["host"] else host
    sign = sighting_of(*row, line, "", host=where or "", index=BEFORE_ALL_LINES, time=None)
    time, day = _time(raw), _day_of_year(raw)
    if time is None and day is not None:
        return replace(sign, vague=True, clock=_WITHOUT_YEAR, time=day)
    return replace(sign, vague=True, clock=CLOCK if time is not None else None, time=time)


def _day_of_year(raw: str) -> float | None:
    """When in its year, where a line has syslog's date: in the host's own time, which is taken for UTC."""
    match = _SYSLOG.match(raw)
    if match is None:
        return None
    try:
        moment = datetime.strptime(f"{_LEAP_YEAR} {match[1]}", "%Y %b %d %H:%M:%S")
    except ValueError:
        return None
    return (moment - datetime(_LEAP_YEAR, 1, 1)).total_seconds()


def _dated(sign: Sighting, near: float | None) -> Sighting:
    """A sign with its year, that of the date nearest to `near` (seconds since the epoch)."""
    if sign.clock != _WITHOUT_YEAR or sign.time is None:
        return sign
    if near is None:
        return replace(sign, clock=None, time=None)
    told = datetime(_LEAP_YEAR, 1, 1, tzinfo=UTC) + timedelta(seconds=sign.time)
    years = datetime.fromtimestamp(near, UTC).year
    dates = []
    for year in (years - 1, years, years + 1):
        with suppress(ValueError):  # the 29th of February
            dates.append(told.replace(year=year).timestamp())
    return replace(sign, clock=CLOCK, time=min(dates, key=lambda date: abs(date - near), default=None))


def _time(raw: str) -> float | None:
    """When, in seconds since the epoch; None where the line does not tell. `dmesg -T` prints the host's own
    time, which is taken for UTC, as on SageMaker's."""
    try:
        if match := _CTIME.match(raw):
            return datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
        if match := _ISO.match(raw):
            return datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
    return None
