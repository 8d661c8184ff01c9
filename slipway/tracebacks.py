"""Python's tracebacks in the lines of an output, and which of them tell why the process ended.

Formats: CPython's traceback module. Where several processes print into one output, their prefixes tell them
apart (torch 2.2 and later print `[rank3]:`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from slipway.signatures.judging import CASCADE, INITIATOR, Sign, rows_matching
from slipway.signatures.lines import OutputLine
from slipway.signatures.table import table

_HEADER = "Traceback (most recent call last):"
_MAX_MESSAGE_LINES = 8
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_IGNORED = ("Exception ignored in", "--- Logging error ---")
_AFTERWARDS = re.compile(r"\[[WEIF]\d{3,4} |/\S+Warning: |\S+:\d+: \w*Warning: ")
_KIND = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[A-Za-z_]\w*)'")
_NAMES_ITS_CODE = re.compile(r"slipway\.(?:Slipway|Checkpoint)Error: [A-Z][A-Z0-9]*\d{3} ")
"""What this package raises (slipway/errors.py): it knows better than what it came from."""


@dataclass(frozen=True)
class PrintedTraceback:
    """A traceback: the numbers of its lines, the header's first; its exception as printed, in up to eight
    lines, and where that begins; and whether it goes on from the traceback before it."""

    numbers: Sequence[int]
    body: Sequence[str]
    exception: str
    at: int
    goes_on: bool

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


def tracebacks_of(lines: Sequence[OutputLine]) -> list[list[PrintedTraceback]]:
    """The tracebacks of each process that wrote into an output, in their order.

    What Python reports of its own teardown, or of a line that could not be logged, is none of them.
    """
    writers: dict[int | None, list[int]] = {}
    for number, line in enumerate(lines):
        writers.setdefault(line.writer, []).append(number)
    return [_tracebacks([lines[n].text for n in numbers], numbers) for numbers in writers.values()]


def that_count(tracebacks: Sequence[PrintedTraceback], code_folder: str) -> list[PrintedTraceback]:
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
        often_survived = _known(traceback, code_folder)[2] in ("CODE001", "CODE005")
        if not often_survived or all(_known(each, code_folder)[0] > INITIATOR for each in kept):
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
    role, vague, code = _known(traceback, code_folder)
    return Sign(code, role, vague, what, traceback.at, what) if (vague, code) == (True, "CODE001") else None


def has_traceback(text: str) -> bool:
    """Whether an output shows that an exception ended a process."""
    return any(map(bool, tracebacks_of([OutputLine(line) for line in text.splitlines()])))


def is_own_module(traceback: PrintedTraceback, code_folder: str) -> bool:
    """Whether it misses a module that lies in the user's source, where Python does not search."""
    missing = _MISSING_MODULE.match(traceback.exception)
    names = (f"{missing['module']}.py", f"{missing['module']}/__init__.py") if missing else ()
    return any(next(Path(code_folder).rglob(name), None) is not None for name in names)


def _known(traceback: PrintedTraceback, code_folder: str) -> tuple[int, bool, str]:
    """Role, vagueness and code of the weightiest row for an exception; the script's own without."""
    own = CASCADE if traceback.follows_from_another else INITIATOR, True, "CODE001"
    rows = [row for row, _ in rows_matching(traceback.exception) if not (row.code == "CODE001" and row.vague)]
    if not rows or is_own_module(traceback, code_folder):
        return own
    return min(((row.role, row.vague, row.code) for row in rows), key=lambda known: known[:2])


def _tracebacks(texts: Sequence[str], numbers: Sequence[int]) -> list[PrintedTraceback]:
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
        message = _message(texts[body : min(end, body + _MAX_MESSAGE_LINES)])
        goes_on = any(marker in text for text in before for marker in _CHAINED)
        found.append(
            PrintedTraceback(
                numbers[start : body + len(message)],
                texts[start + 1 : body],
                "\n".join(message).strip(),
                numbers[min(body, end - 1)],
                goes_on or texts[start].startswith("Original "),
            )
        )
    return found


def _message(texts: Sequence[str]) -> list[str]:
    message: list[str] = []
    for text in texts:
        ends = any(marker in text for marker in (*_CHAINED, *_IGNORED)) or _AFTERWARDS.match(text)
        if ends or (message and not text.strip()):
            break
        message.append(text)
    return message
