"""What the output of a failed process says: the exception, where it was raised, and which failure mode.

Formats: CPython's traceback module; PyTorch prefixes each line with `[rank3]:` once a process group
exists (torch 2.2 and later).
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path, PurePath

_OFTEN_SURVIVED = ("CODE001", "CODE005")
"""Codes of exceptions that name no failure mode, or one that scripts handle: a library that is optional."""

SYMPTOMS = ("NCCL004", "NCCL006")
"""Codes of ranks that wait for, or lost, another one: from the weaker to the weakest evidence."""

_TAIL_LINES = 20
_MAX_MESSAGE_LINES = 8
_HEADER = "Traceback (most recent call last):"
_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_IGNORED = "Exception ignored in"
_AFTERWARDS = re.compile(r"\[[WEIF]\d{3,4} |/\S+Warning: |\S+:\d+: \w*Warning: ")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)
_WHAT = re.compile(r"^\s*what\(\):\s*(.+)$", re.MULTILINE)
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[A-Za-z_]\w*)'")
_TRANSPORT = re.compile(r"gloo|nccl|c10d|TCPStore|ProcessGroup|torch[./]distributed|DistNetworkError", re.I)

_SPECIFIC: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("MEM001", re.compile(r"CUDA out of memory|CUDA error: out of memory|\bOutOfMemoryError\b")),
    (
        "DISK001",
        # Shared memory has no room either where it says so; that is another failure mode.
        re.compile(
            r"^(?!.*(?:/dev/shm|shm\.h|posix_fallocate|<[^>]*torch_|NCCL WARN))"
            r".*(?:No space left on device|Disk quota exceeded)",
            re.MULTILINE,
        ),
    ),
    ("NCCL009", re.compile(r"Address already in use|EADDRINUSE")),
    (
        "CODE002",
        re.compile(r"error: (?:unrecognized arguments|the following arguments are required|argument )"),
    ),
    ("CODE002", re.compile(r"can't open file .*No such file or directory")),
    (
        "CODE005",
        re.compile(
            r"^ModuleNotFoundError: No module named '[^'.]+'|^ERROR: (?:No matching distribution found"
            r"|Could not find a version that satisfies|ResolutionImpossible)",
            re.MULTILINE,
        ),
    ),
    (
        "CODE002",
        re.compile(r"python[\d.]*: (?:No module named |Error while finding module .* for ')(?!torch\b)"),
    ),
    (
        "NCCL004",
        re.compile(
            r"[Cc]aught collective operation timeout|Timed out waiting \d+ms for (?:recv|send) operation"
            r"|Timeout at NCCL work"
        ),
    ),
)
_OUR_OWN = re.compile(r"^slipway\.CheckpointError: (?P<code>[A-Z]{3,4}\d{3}) ", re.MULTILINE)
"""What slipway.CheckpointManager raises names its code itself."""

_CLOSED_BY_PEER = re.compile(
    r"Connection (?:was )?(?:likely )?(?:closed|reset)(?: by (?:remote )?peer|\.)|ncclRemoteError"
    r"|socketProgress: Connection closed",
)


@dataclass(frozen=True)
class Evidence:
    """What an output says: a failure mode's code, the exception in a line, its place, and the traceback."""

    code: str
    message: str
    place: str | None
    details: str

    @property
    def weight(self) -> int:
        """0 for a cause; the higher, the more likely only the consequence of another rank's."""
        return SYMPTOMS.index(self.code) + 1 if self.code in SYMPTOMS else 0


def judge(output: str, exit_code: int | None, code_folder: str, *, recorded: bool = False) -> Evidence:
    """The failure mode that a process' stderr (or recorded traceback) and exit code show.

    `exit_code` is negative for a signal and None where it is not known. A process that a signal ended
    printed its tracebacks, if any, for something that it survived: they count only where `recorded` by
    torch at its end. Of a chain of exceptions, one that names a failure mode counts more than the one
    that was raised last.
    """
    text = _RANK_PREFIX.sub("", _ANSI.sub("", output))
    if exit_code is not None and exit_code < 0 and not recorded:
        return _of_signal(text, exit_code)
    chain = last_chain(text)
    if not chain:
        return _of_output(text, exit_code)
    found = [_of_exception(block, code_folder) for block in chain]
    return min(reversed(found), key=lambda evidence: (evidence.weight, evidence.code in _OFTEN_SURVIVED))


def last_chain(text: str) -> list[str]:
    """The last traceback in a text, with those it says it came from: the oldest first.

    What Python reports of its own teardown ("Exception ignored in") is not a traceback of the failure.
    """
    before, *blocks = text.split(_HEADER)
    kept: list[tuple[str, str]] = []
    for block in blocks:
        if _IGNORED not in before.rstrip("\n").rpartition("\n")[2]:
            kept.append((before, _HEADER + block))
        before = block
    chain: list[str] = []
    for before, block in reversed(kept):
        chain.insert(0, block)
        if not any(marker in before for marker in _CHAINED):
            break
    return chain


def signal_name(exit_code: int) -> str | None:
    """The signal in an exit code such as -9, or 137 as a shell reports it."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _of_exception(block: str, code_folder: str) -> Evidence:
    lines = block.splitlines()
    body = 1
    while body < len(lines) and (lines[body].startswith((" ", "\t")) or not lines[body]):
        body += 1
    message: list[str] = []
    for line in lines[body : body + _MAX_MESSAGE_LINES]:
        ends = any(marker in line for marker in (*_CHAINED, _IGNORED)) or _AFTERWARDS.match(line)
        if ends or (message and not line.strip()):
            break
        message.append(line)
    text = "\n".join(message).strip() or "an exception"
    code = _code(text)
    missing = _MISSING_MODULE.match(text)
    if missing and _is_own(missing["module"], code_folder):
        code = "CODE001"
    return Evidence(code, text, _place(block, code_folder), "\n".join(lines[1:body] + message))


def _is_own(module: str, code_folder: str) -> bool:
    """Whether a module that was not found lies in the user's source, where Python does not search."""
    names = (f"{module}.py", f"{module}/__init__.py")
    return any(next(Path(code_folder).rglob(name), None) is not None for name in names)


def _of_signal(text: str, exit_code: int) -> Evidence:
    tail = _tail(text)
    killed = f"killed by {signal_name(exit_code) or 'a signal'} (exit {exit_code})"
    if exit_code == -signal.SIGKILL:
        return Evidence("MEM002", f"{killed}: the usual reason is host memory", None, "")
    reasons = _decisive(tail) or [match.strip() for match in _WHAT.findall(tail)]
    return Evidence(_code(tail), ": ".join([killed, *reasons[-1:]]), None, tail)


def _of_output(text: str, exit_code: int | None) -> Evidence:
    if exit_code is not None and signal_name(exit_code) == "SIGKILL":
        return _of_signal(text, -signal.SIGKILL)
    tail = _tail(text)
    code = _code(tail)
    if exit_code == 2 and "usage:" in tail:
        code = "CODE002"
    lines = _decisive(tail) or _EXCEPTION.findall(tail) or (tail.splitlines() if code == "CODE002" else [])
    return Evidence(code, lines[-1].strip() if lines else f"exited with code {exit_code}", None, tail)


def _decisive(tail: str) -> list[str]:
    """The lines that name a failure mode by themselves."""
    return [line.strip() for line in tail.splitlines() if _code(line) != "CODE001"]


def _tail(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-_TAIL_LINES:])


def _code(text: str) -> str:
    told = _OUR_OWN.search(text)
    if told:
        return told["code"]
    for code, pattern in _SPECIFIC:
        if pattern.search(text):
            return code
    # A download that breaks says the same words, and is a cause of its own.
    if _CLOSED_BY_PEER.search(text) and _TRANSPORT.search(text):
        return "NCCL006"
    return "CODE001"


def _place(block: str, code_folder: str) -> str | None:
    """The innermost line of the user's own code, else the innermost of all."""
    frames = [(match["file"], match["line"]) for match in _FRAME.finditer(block)]
    own = [frame for frame in frames if frame[0].startswith(f"{code_folder}/")]
    if not frames:
        return None
    file, line = (own or frames)[-1]
    return f"{PurePath(file).relative_to(code_folder) if own else PurePath(file).name}:{line}"
