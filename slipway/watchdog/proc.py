"""What Linux says of a process: its state, and which signals it handles (proc(5))."""

from __future__ import annotations

from pathlib import Path

from slipway.watchdog.views import GONE


def state_of(pid: int) -> str:
    """R, S, D or T; GONE where there is no such process, or nothing but its exit code is left of it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return GONE
    # The name in parentheses may hold spaces and parentheses itself.
    state = text.rpartition(")")[2].split()[0]
    return GONE if state in "ZXx" else state.upper()


def handles(pid: int, signal: int) -> bool:
    """Whether a process has a handler for a signal; where it has none, most signals would end it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (signal - 1) & 1)
    except (OSError, StopIteration, ValueError, IndexError):
        return False
