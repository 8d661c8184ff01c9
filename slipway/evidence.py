"""What the output of a failed process says: which failure mode, in which words, and where it happened."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from slipway.signatures.judging import INITIATOR, Sign, root_of
from slipway.signatures.lines import OutputLine, lines_of
from slipway.tracebacks import PrintedTraceback, is_own_module, sign_of, that_count, tracebacks_of

_TAIL_LINES = 20
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*$")
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
"""Signals that a process gets by its own native code."""

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


def judge(output: str, exit_code: int | None, code_folder: str, *, recorded: bool = False) -> Evidence:
    """The failure mode that a process' stderr (or recorded traceback) and exit code show.

    `exit_code` is negative for a signal and None where it is not known. What the output says is judged as
    `launch diagnose` does, but for tracebacks that the process survived: those before the last, and of a
    process that a signal ended all, unless `recorded` by torch at its end.
    """
    lines = lines_of(output)
    all_of_them = tracebacks_of(lines)
    if exit_code is not None and exit_code < 0 and not recorded:
        return _of_signal(_without(lines, [each for one in all_of_them for each in one]), exit_code)
    if not any(all_of_them) and exit_code is not None and signal_name(exit_code) == "SIGKILL":
        return _of_signal(lines, -signal.SIGKILL)
    count = [each for one in all_of_them for each in that_count(one, code_folder)]
    lines = _without(lines, [each for one in all_of_them for each in one if each not in count])
    signs = [sign for sign in (sign_of(each, code_folder) for each in count) if sign is not None]
    own = {each.at for each in count if is_own_module(each, code_folder)}
    root = root_of([OutputLine("") if number in own else line for number, line in enumerate(lines)], signs)
    if root is None or root.weight > (INITIATOR, True):
        root = _of_usage(lines, exit_code) or root
    if root is None:
        return _of_nothing_known(lines, exit_code)
    shown = next((each for each in count if root.index in each.numbers), None)
    return Evidence(
        root.code,
        root.what,
        shown.place(code_folder) if shown else None,
        _told(shown) if shown else _tail(lines[: root.index + 1]),
        root.weight,
        root.rank,
    )


def signal_name(exit_code: int) -> str | None:
    """The signal in an exit code such as -9, or 137 as a shell reports it."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _of_signal(lines: Sequence[OutputLine], exit_code: int) -> Evidence:
    killed = f"killed by {signal_name(exit_code) or 'a signal'} (exit {exit_code})"
    if exit_code == -signal.SIGKILL:
        # Who is killed from outside says nothing of it: only what was definite just before counts more.
        root = root_of(lines[-_TAIL_LINES:])
        if root is None or root.weight > (INITIATOR, False):
            return Evidence("MEM002", f"{killed}: the usual reason is host memory", None, "")
    else:
        root = root_of(lines)
    told = _tail(lines)
    if root is None or (root.code in ("CODE001", "CODE004") and root.weight[1]):
        thrown = [match[1].strip() for match in map(_WHAT.match, (line.text for line in lines)) if match]
        code = "CODE004" if -exit_code in _CRASHES else "CODE001"
        return Evidence(code, ": ".join([killed, *thrown[-1:]]), None, told)
    return Evidence(root.code, f"{killed}: {root.what}", None, told, root.weight, root.rank)


def _of_usage(lines: Sequence[OutputLine], exit_code: int | None) -> Sign | None:
    """What a parser of arguments refused in words of its own, after its usage."""
    tail = [(number, line.text) for number, line in enumerate(lines) if line.text.strip()][-_TAIL_LINES:]
    if exit_code != 2 or not any("usage:" in text for _, text in tail):
        return None
    number, text = tail[-1]
    return Sign("CODE002", INITIATOR, True, text.strip(), number, text)


def _of_nothing_known(lines: Sequence[OutputLine], exit_code: int | None) -> Evidence:
    tail = _tail(lines)
    raised = [line.strip() for line in tail.splitlines() if _EXCEPTION.match(line)]
    message = raised[-1] if raised else f"exited with code {exit_code}"
    return Evidence("CODE001", message, None, tail)


def _without(lines: Sequence[OutputLine], tracebacks: Sequence[PrintedTraceback]) -> list[OutputLine]:
    """The lines, with these tracebacks blank: the number of a line stays what it is."""
    blank = {number for traceback in tracebacks for number in traceback.numbers}
    return [OutputLine("") if number in blank else line for number, line in enumerate(lines)]


def _told(traceback: PrintedTraceback) -> str:
    return "\n".join([*traceback.body, traceback.exception])


def _tail(lines: Sequence[OutputLine]) -> str:
    return "\n".join([line.text for line in lines if line.text.strip()][-_TAIL_LINES:])
