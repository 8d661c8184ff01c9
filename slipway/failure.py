"""What the job's failure reason will say, by what its processes printed: the failure mode's code first.

The service hands `/opt/ml/output/failure` on as FailureReason, at most 1024 characters of it
(DescribeTrainingJob), between `AlgorithmError: ` and `, exit code: N`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from slipway.errors import say
from slipway.output_signatures import (
    CASCADE,
    INITIATOR,
    SYMPTOM,
    OutputLine,
    Sign,
    lines_of,
    root_sign_of,
    rows_matching,
    table,
)

REPORTS: tuple[str, ...] = (
    "CKPT003", "CKPT004", "CKPT005", "CKPT007", "CKPT009", "CODE001", "CODE002", "CODE004", "CODE005",
    "DATA001", "DATA002", "DATA005", "DDP005", "DDP006", "DISK001", "DIST001", "DIST003", "DIST008", "EFA005",
    "EFA007", "FSX005", "HW001", "HW002", "IAM002", "IMG002", "MEM001", "MEM002", "MEM003", "NCCL004",
    "NCCL006", "NCCL007", "NCCL008", "NCCL009", "NUM001", "S3001", "S3002", "STOP001",
)  # fmt: skip
"""Every failure mode that the boot, or what scripts use of this package, is there to report at run time:
those that they find by themselves, and those whose lines show in what the ranks print (`signatures/`)."""

STOPPED = "STOP001"
"""The code of what was asked to end, printed alone: the service asks for no reason then."""

MAX_CHARACTERS = 980
_MAX_HEADLINE = 480


class BootError(Exception):
    """The job cannot be started, for a reason that has a failure mode: its code and what to say."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code


@dataclass(frozen=True)
class RankEnd:
    """A rank that ended badly.

    `exit_code` is negative for a signal, None if unknown; `time` is the earliest sign of the failure,
    in seconds since the epoch; `output` the traceback that torch recorded, else the end of its stderr;
    `printed` the end of its stdout.
    """

    rank: int
    exit_code: int | None
    time: float
    output: str
    recorded: bool = False
    printed: str = ""


@dataclass(frozen=True)
class Cause:
    """The rank that failed first, and why. `rank` is None where no rank was started."""

    rank: int | None
    time: float
    exit_code: int | None
    evidence: Evidence

    def text(self, host: str) -> str:
        """The content of the failure file of `host`: who failed, why and where, then the traceback's end."""
        who = f"rank {self.rank} on {host}" if self.rank is not None else f"torchrun on {host}"
        place = f" ({self.evidence.place})" if self.evidence.place else ""
        message = self.evidence.message.replace("\n", " ")
        if self.evidence.rank is not None and message.startswith("rank "):
            # It says of itself which rank failed, and where.
            return self._headed(message, place)
        if self.evidence.rank not in (None, self.rank):
            # What this rank printed tells of another one, whose host it does not know.
            who, message = f"rank {self.evidence.rank}", f"{message}; so says {who}"
        return self._headed(f"{who}: {message}", place)

    def _headed(self, told: str, place: str) -> str:
        headline = shorten(f"{self.evidence.code} {told}", _MAX_HEADLINE - len(place)) + place
        return headline + _last_lines(self.evidence.details, MAX_CHARACTERS - len(headline))


def root_cause(ends: Iterable[RankEnd], code_folder: str) -> Cause | None:
    """The weightiest failure among the ranks, and of these the earliest: a symptom loses against a cause,
    and what a rank says of another one against what that one says itself."""
    causes = [
        Cause(
            end.rank,
            end.time,
            end.exit_code,
            judge_output(end.output, end.exit_code, code_folder, recorded=end.recorded, printed=end.printed),
        )
        for end in ends
    ]

    def order(cause: Cause) -> tuple[object, ...]:
        of_another = cause.evidence.rank not in (None, cause.rank)
        return *cause.evidence.weight, of_another, cause.time, cause.rank or 0

    return min(causes, key=order, default=None)


_OF_LOSSES = re.compile(r"finite|\bnan\b|isnan|isinf|diverge|loss", re.IGNORECASE)
_DIVERGED = re.compile(r"finite|\bnan\b|isnan|isinf|diverge", re.IGNORECASE)
"""What other exceptions than an assertion say: many speak of a loss that has nothing to do with its value."""


def cause_by_loss(cause: Cause, losses: Mapping[int, str]) -> Cause:
    """The cause where a script ended by itself because its loss is not finite any more, as that.

    `losses` has the ranks whose last loss was not, with the line that says so. Such an end is an assertion
    without words, an exception or its line that speaks of that, or an exit without any exception.
    """
    evidence = cause.evidence
    if evidence.code != "CODE001" or not losses or (cause.exit_code or 0) < 0:
        return cause
    told = [evidence.message, *[line for line in evidence.details.splitlines() if line.strip(" ^~")][-2:]]
    without_words = evidence.message.strip() in ("AssertionError", f"exited with code {cause.exit_code}")
    speaks = _OF_LOSSES if evidence.message.startswith("AssertionError") else _DIVERGED
    if not without_words and not any(map(speaks.search, told)):
        return cause
    message = f"the loss is not finite, and the script ended: {evidence.message}"
    printed = losses.get(cause.rank or 0, next(iter(losses.values())))
    details = "\n".join([printed, *evidence.details.splitlines()])
    return replace(cause, evidence=replace(evidence, code="NUM001", message=message, details=details))


_AWAITED_WORLD = re.compile(
    r"store_based_barrier_key:\d{1,4} \(world_size=(?P<barrier>\d{1,7}),"
    r"|\b\d{1,7}/(?P<clients>\d{1,7}) (?:clients|workers) joined"
)
"""How torch's stores say of how many ranks a group is to be (torch/distributed/distributed_c10d.py, and
TCPStore.cpp beside it)."""

_AT_THE_END = 20_000
"""Characters of what a rank printed in which it says for whom it waited."""


def cause_by_world(cause: Cause, ends: Iterable[RankEnd], world: int) -> Cause:
    """The cause where ranks waited at the store for more of them than the job's `world`, as that."""
    if cause.evidence.code != "NCCL008":
        return cause
    wanted = 0
    for end in ends:
        text = end.output[-_AT_THE_END:]
        ranks = [int(each["rank"]) + 1 for each in table().patterns["waits_for_rank"].finditer(text)]
        worlds = [int(each["barrier"] or each["clients"]) for each in _AWAITED_WORLD.finditer(text)]
        wanted = max([wanted, *ranks, *worlds])
    if wanted <= world:
        return cause
    message = (
        f"waited for a process group of {wanted} ranks or more, and the job has {world}: the script counts "
        f"other processes than are started; {cause.evidence.message}"
    )
    return replace(cause, evidence=replace(cause.evidence, code="DIST001", message=message))


def write_failure(file: Path, text: str, time: float) -> None:
    """Write the failure file; its modification time is that of the failure itself.

    By it the hosts' failures can be ordered, although some hosts take longer to come down. The room that
    was taken for it is used (see `take_room`). Where it cannot be written all the same, that is said and no
    more: the exit code counts.
    """
    content = shorten(text, MAX_CHARACTERS).encode("utf-8", "replace")
    try:
        try:
            write_into_room(file, content)
        except OSError:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        os.utime(file, (time, time))
    except OSError as error:
        say(f"{file} cannot be written: {error.strerror}")


def shorten(text: str, limit: int) -> str:
    """The text, cut with an ellipsis where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def exit_status(code: int) -> int:
    """An exit code as a shell reports it: 128 and the signal's number for a signal."""
    return 128 - code if code < 0 else code


def _last_lines(text: str, room: int) -> str:
    """As many whole lines from the end as fit, each after a line break."""
    kept = ""
    for line in reversed([line for line in text.splitlines() if line.strip(" ^~")]):
        if len(kept) + len(line) + 1 > room:
            break
        kept = f"\n{line}{kept}"
    return kept


# Room for the failure file, taken at the start: a disk that is full at the end must not cost the reason.
#
# It is a file of its own beside the failure file, since an empty failure file would already be a report.


BYTES = 4096
"""More than a report ever has: 980 characters (slipway/failure.py) of at most four bytes each."""


def take_room(file: Path) -> None:
    """Take the room for this file. Where there is none the job goes on without."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        # Bytes that are written: a file system may find room for a hole only when it is filled.
        with _room_of(file).open("wb") as room:
            room.write(os.urandom(BYTES))
            room.flush()
            os.fsync(room.fileno())


def write_into_room(file: Path, content: bytes) -> None:
    """Write the file into the room that was taken for it.

    Raises OSError where that cannot be, and where none was taken.
    """
    with _room_of(file).open("r+b") as room:
        room.write(content[:BYTES])
        room.flush()
        room.truncate()
    _room_of(file).replace(file)


def give_room_back(file: Path) -> None:
    """Leave nothing of the room."""
    with contextlib.suppress(OSError):
        _room_of(file).unlink()


def _room_of(file: Path) -> Path:
    return file.with_name(f".{file.name}-room")


# What the output of a failed process says: which failure mode, in which words, and where it happened.


_TAIL_LINES = 20
_NEAR_THE_END = 60
"""Lines of stdout, behind which a traceback was survived."""

CAUSED_BY = ", caused by "
_MAX_CAUSE = 200
_ABORT_LINES = 500
"""In which an abort is told: the stacks of all threads follow it."""

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*$")
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
"""Signals that a process gets by its own native code."""

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals by which others ask a process to end."""

_WHAT = re.compile(r"^\s*what\(\):\s*(\S.*)$")


@dataclass(frozen=True)
class Evidence:
    """What an output says: a failure mode's code, what happened in a line, its place, and the lines that
    show it.

    `weight` orders what several ranks say: the lower, the likelier the cause (see `Sign`). `rank` is the one
    that failed where the output names another one than its own.
    """

    code: str
    message: str
    place: str | None
    details: str
    weight: tuple[int, bool] = (INITIATOR, True)
    rank: int | None = None


def judge_output(
    output: str, exit_code: int | None, code_folder: str, *, recorded: bool = False, printed: str = ""
) -> Evidence:
    """The failure mode that a process' stderr (or recorded traceback) and exit code show; by what it
    `printed` on stdout where these show none, as loggers write their tracebacks there.

    `exit_code` is negative for a signal and None where it is not known. What the output says is judged as
    `launch diagnose` does, but for tracebacks that the process survived: those before the last, and of a
    process that a signal ended all, unless `recorded` by torch at its end, or that it aborted only when the
    exception had ended it.
    """
    lines = _without_indents_of_reports(lines_of(output))
    all_of_them = tracebacks_of(lines)
    if exit_code == -signal.SIGABRT and any(all_of_them) and _aborts_at_the_end(lines):
        recorded = True
    if exit_code is not None and exit_code < 0 and not recorded:
        found = _evidence_of_signal(
            _blank_tracebacks(lines, [each for one in all_of_them for each in one]), exit_code
        )
        return replace(found, place=_place_of_crash(lines, code_folder))
    if not any(all_of_them) and exit_code is not None and signal_name(exit_code) == "SIGKILL":
        return _evidence_of_signal(lines, -signal.SIGKILL)
    count = [each for one in all_of_them for each in deciding_tracebacks(one, code_folder)]
    lines = _blank_tracebacks(lines, [each for one in all_of_them for each in one if each not in count])
    signs = [sign for sign in (sign_of(each, code_folder) for each in count) if sign is not None]
    own = {each.at for each in count if is_own_module(each, code_folder)}
    root = root_sign_of(
        [OutputLine("") if number in own else line for number, line in enumerate(lines)], signs
    )
    if root is None or root.weight > (INITIATOR, True):
        root = _evidence_of_usage(lines, exit_code) or root
    if (root is None or root.weight > (INITIATOR, True)) and _ends_with_traceback(printed):
        return judge_output(printed, exit_code, code_folder)
    if root is None:
        return _evidence_of_last_line(lines, exit_code, printed)
    shown = next((each for each in count if root.index in each.numbers), None)
    return Evidence(
        root.code,
        root.what + (_cause_in_words(shown, all_of_them) if shown and root.code == "CODE001" else ""),
        shown.place(code_folder) if shown else None,
        "\n".join([*shown.body, shown.exception]) if shown else _tail_text(lines[: root.index + 1]),
        root.weight,
        root.rank,
    )


def _ends_with_traceback(text: str) -> bool:
    """Whether the last lines hold a traceback: one further up was logged and survived."""
    lines = lines_of(text)[-_NEAR_THE_END:]
    # The end of one is enough, whose header may be further up.
    return has_traceback(text) and any(_EXCEPTION.match(line.text) for line in lines)


def _cause_in_words(shown: PrintedTraceback, tracebacks: Sequence[Sequence[PrintedTraceback]]) -> str:
    """The exception that another one was raised from, which says as a rule only that something failed."""
    before = [each[at - 1] for each in tracebacks for at, one in enumerate(each) if at and one is shown]
    if not before or not shown.from_another or shown.follows_from_another:
        return ""
    cause = before[0].exception.partition("\n")[0]
    said = cause.partition(": ")[2] or cause
    return f"{CAUSED_BY}{shorten(cause, _MAX_CAUSE)}" if cause and said not in shown.exception else ""


def signal_name(exit_code: int) -> str | None:
    """The signal in an exit code such as -9, or 137 as a shell reports it."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _aborts_at_the_end(lines: Sequence[OutputLine]) -> bool:
    """Whether a process aborted while Python was coming down, as threads of C++ do that come back to it then
    (Python/pylifecycle.c, before 3.14): no exception is active any more."""
    return any(line.text.startswith("terminate called without an active") for line in lines[-_ABORT_LINES:])


def _evidence_of_signal(lines: Sequence[OutputLine], exit_code: int) -> Evidence:
    killed = f"killed by {signal_name(exit_code) or 'a signal'} (exit {exit_code})"
    if exit_code == -signal.SIGABRT and _aborts_at_the_end(lines):
        killed += " while Python was coming down, behind the script's end"
    if exit_code == -signal.SIGKILL:
        # Who is killed from outside says nothing of it: only what was definite just before counts more.
        root = root_sign_of(lines[-_TAIL_LINES:])
        if root is None or root.weight > (INITIATOR, False):
            return Evidence("MEM002", f"{killed}: the usual reason is host memory", None, "")
    else:
        root = root_sign_of(lines)
    # faulthandler ends with a line of many module names.
    told = _tail_text([line for line in lines if not line.text.startswith("Extension modules: ")])
    if root is None or (root.code in ("CODE001", "CODE004") and root.weight[1]):
        thrown = [match[1].strip() for match in map(_WHAT.match, (line.text for line in lines)) if match]
        code = "CODE004" if -exit_code in _CRASHES else STOPPED if -exit_code in _ENDINGS else "CODE001"
        return Evidence(code, ": ".join([killed, *thrown[-1:]]), None, told)
    return Evidence(root.code, f"{killed}: {root.what}", None, told, root.weight, root.rank)


def _place_of_crash(lines: Sequence[OutputLine], code_folder: str) -> str | None:
    """The innermost line of the user's code in the thread that crashed, by what faulthandler printed."""
    crashed = False
    for line in lines:
        if line.text.endswith("(most recent call first):"):
            crashed = line.text.startswith("Current thread")
        match = _FRAME.match(line.text) if crashed else None
        if match is not None and match["file"].startswith(f"{code_folder}/"):
            return f"{PurePath(match['file']).relative_to(code_folder)}:{match['line']}"
    return None


def _evidence_of_usage(lines: Sequence[OutputLine], exit_code: int | None) -> Sign | None:
    """What a parser of arguments refused in words of its own, after its usage."""
    tail = [(number, line.text) for number, line in enumerate(lines) if line.text.strip()][-_TAIL_LINES:]
    if exit_code != 2 or not any("usage:" in text for _, text in tail):
        return None
    number, text = tail[-1]
    return Sign("CODE002", INITIATOR, True, text.strip(), number, text)


def _evidence_of_last_line(lines: Sequence[OutputLine], exit_code: int | None, printed: str) -> Evidence:
    """What a process says that no row knows; of one that ended without an exception, what it printed last on
    stdout where a row knows that."""
    tail = _tail_text(lines)
    raised = [line.strip() for line in tail.splitlines() if _EXCEPTION.match(line)]
    if raised:
        return Evidence("CODE001", raised[-1], None, tail)
    ended = f"exited with code {exit_code}"
    last = lines_of(printed)[-_TAIL_LINES:]
    root = root_sign_of(last) if exit_code else None
    if root is None or root.role > SYMPTOM or root.code == "CODE001":
        return Evidence("CODE001", ended, None, tail)
    message = f"{ended}, and had printed: {root.text.strip()}"
    return Evidence(root.code, message, None, _tail_text(last[: root.index + 1]), root.weight, root.rank)


def _blank_tracebacks(
    lines: Sequence[OutputLine], tracebacks: Sequence[PrintedTraceback]
) -> list[OutputLine]:
    """The lines, with these tracebacks blank: the number of a line stays what it is."""
    blank = {number for traceback in tracebacks for number in traceback.numbers}
    return [OutputLine("") if number in blank else line for number, line in enumerate(lines)]


def _tail_text(lines: Sequence[OutputLine]) -> str:
    return "\n".join([line.text for line in lines if line.text.strip()][-_TAIL_LINES:])


# Python's tracebacks in the lines of an output, and which of them tell why the process ended.
#
# Formats: CPython's traceback module. Where several processes print into one output, their prefixes tell
# them apart (torch 2.2 and later print `[rank3]:`).


_HEADER = "Traceback (most recent call last):"
_MAX_MESSAGE_LINES = 8
_REPORTED = re.compile(r"\s+traceback : ")
_INDENT = "  "
"""Of a traceback in the report of a torchrun (torch, distributed/elastic/multiprocessing/errors)."""
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_IGNORED = ("Exception ignored in", "--- Logging error ---")
_AFTERWARDS = re.compile(r"-{20}$|\[[WEIF]\d{3,4} |/\S+Warning: |\S+:\d+: \w*Warning: ")
_KIND = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[A-Za-z_]\w*)'")
_NAMES_ITS_CODE = re.compile(r"slipway\.(?:Slipway|Checkpoint)Error: [A-Z][A-Z0-9]*\d{3} ")
"""What this package raises (slipway/errors.py): it knows better than what it came from."""


@dataclass(frozen=True)
class PrintedTraceback:
    """A traceback: the numbers of its lines, the header's first; its exception as printed, in up to eight
    lines, and where that begins; whether it goes on from the traceback before it, and was raised from it."""

    numbers: Sequence[int]
    body: Sequence[str]
    exception: str
    at: int
    goes_on: bool
    from_another: bool = False

    @property
    def follows_from_another(self) -> bool:
        """Whether such an exception only reports that something else failed."""
        kind = _KIND.match(self.exception)
        return bool(kind and table().patterns["follows_from_another"].search(kind[0]))

    def place(self, code_folder: str) -> str | None:
        """The innermost line of the user's own code, else the innermost of all."""
        frames = [(match["file"], match["line"]) for match in map(_FRAME.match, self.body) if match]
        own = [frame for frame in frames if frame[0].startswith(f"{code_folder}/")]
        if not frames:
            return None
        file, line = (own or frames)[-1]
        return f"{PurePath(file).relative_to(code_folder) if own else PurePath(file).name}:{line}"


def _without_indents_of_reports(lines: Iterable[OutputLine]) -> list[OutputLine]:
    """The lines, with the tracebacks in the report of a torchrun that the rank itself has started as its
    processes raised them."""
    found: list[OutputLine] = []
    is_reported = False
    for line in lines:
        if is_reported and line.text.startswith(_INDENT):
            line = replace(line, text=line.text[len(_INDENT) :])
        else:
            is_reported = _REPORTED.match(line.text) is not None
        found.append(line)
    return found


def tracebacks_of(lines: Sequence[OutputLine]) -> list[list[PrintedTraceback]]:
    """The tracebacks of each process that wrote into an output, in their order.

    What Python reports of its own teardown, or of a line that could not be logged, is none of them.
    """
    writers: dict[int | None, list[int]] = {}
    for number, line in enumerate(lines):
        writers.setdefault(line.writer, []).append(number)
    return [_tracebacks_of_process([lines[n].text for n in numbers], numbers) for numbers in writers.values()]


def deciding_tracebacks(tracebacks: Sequence[PrintedTraceback], code_folder: str) -> list[PrintedTraceback]:
    """Of a process' tracebacks those that tell why it ended.

    The last one with those that it says it came from, unless it names a failure mode itself; and where it
    only reports another process' failure, the ones before it as well. Of a chain, an exception that names no
    failure mode counts only as the last, and a missing package only where nothing came of it but the failures
    of others: scripts handle both.
    """
    chain: list[PrintedTraceback] = []
    for traceback in reversed(tracebacks):
        if chain and not (chain[0].goes_on or all(each.follows_from_another for each in chain)):
            break
        chain.insert(0, traceback)
    if chain and _NAMES_ITS_CODE.match(chain[-1].exception):
        return [chain[-1]]
    kept: list[PrintedTraceback] = []
    for traceback in reversed(chain):
        often_survived = _weightiest_row(traceback, code_folder)[2] in ("CODE001", "CODE005")
        if not often_survived or all(_weightiest_row(each, code_folder)[0] > INITIATOR for each in kept):
            kept.insert(0, traceback)
    return kept


def sign_of(traceback: PrintedTraceback, code_folder: str) -> Sign | None:
    """What an exception shows that no row knows: the script's own; None where a row knows better."""
    what = traceback.exception
    if not what:
        cut = "an exception, of which the log has only the stack"
        return Sign("CODE001", CASCADE, True, cut, traceback.at, "")
    if what.startswith("KeyboardInterrupt"):
        return Sign("STOP001", CASCADE, False, "interrupted with Ctrl-C (SIGINT)", traceback.at, what)
    role, vague, code = _weightiest_row(traceback, code_folder)
    return Sign(code, role, vague, what, traceback.at, what) if (vague, code) == (True, "CODE001") else None


def has_traceback(text: str) -> bool:
    """Whether an output shows that an exception ended a process."""
    return any(map(bool, tracebacks_of([OutputLine(line) for line in text.splitlines()])))


def is_own_module(traceback: PrintedTraceback, code_folder: str) -> bool:
    """Whether it misses a module that lies in the user's source, where Python does not search."""
    missing = _MISSING_MODULE.match(traceback.exception)
    names = (f"{missing['module']}.py", f"{missing['module']}/__init__.py") if missing else ()
    return any(next(Path(code_folder).rglob(name), None) is not None for name in names)


def _weightiest_row(traceback: PrintedTraceback, code_folder: str) -> tuple[int, bool, str]:
    """Role, vagueness and code of the weightiest row for an exception; the script's own without."""
    own = CASCADE if traceback.follows_from_another else INITIATOR, True, "CODE001"
    rows = [row for row, _ in rows_matching(traceback.exception) if not (row.code == "CODE001" and row.vague)]
    if not rows or is_own_module(traceback, code_folder):
        return own
    return min(((row.role, row.vague, row.code) for row in rows), key=lambda known: known[:2])


def _tracebacks_of_process(texts: Sequence[str], numbers: Sequence[int]) -> list[PrintedTraceback]:
    headers = [n for n, text in enumerate(texts) if _HEADER in text]
    found: list[PrintedTraceback] = []
    previous = 0
    for number, start in enumerate(headers):
        end = headers[number + 1] if number + 1 < len(headers) else len(texts)
        above = [*texts[previous:start], texts[start].partition(_HEADER)[0]]
        before = [text for text in above if text.strip()]
        previous = start
        if before and any(marker in before[-1] for marker in _IGNORED):
            continue
        body = start + 1
        while body < end and (texts[body].startswith((" ", "\t")) or not texts[body]):
            body += 1
        message = _exception_message(texts[body : min(end, body + _MAX_MESSAGE_LINES)])
        goes_on = any(marker in text for text in before for marker in _CHAINED)
        found.append(
            PrintedTraceback(
                numbers[start : body + len(message)],
                texts[start + 1 : body],
                "\n".join(message).strip(),
                numbers[min(body, end - 1)],
                goes_on or texts[start].startswith("Original "),
                any(_CHAINED[1] in text for text in before),
            )
        )
    return found


def _exception_message(texts: Sequence[str]) -> list[str]:
    message: list[str] = []
    for text in texts:
        ends = any(marker in text for marker in (*_CHAINED, *_IGNORED)) or _AFTERWARDS.match(text)
        if ends or (message and not text.strip()):
            break
        message.append(text)
    return message
