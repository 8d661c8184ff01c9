"""A command with a deadline: what it printed until then, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MAX_BYTES = 8 * 1024 * 1024
_KILLED_SECONDS = 1.0


@dataclass(frozen=True)
class CommandOutput:
    """What a command printed, both streams together, and its exit code: None where it was killed."""

    exit_code: int | None
    output: str


def asked(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> CommandOutput:
    """Run a command for so many seconds at most.

    Raises OSError where it cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return CommandOutput(process.returncode, output[:_MAX_BYTES].decode("utf-8", "replace"))
    except subprocess.TimeoutExpired as late:
        kill(process)
        output = late.stdout or b""
        # A process that a dead mount holds does not die, and its pipe stays open: it is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_KILLED_SECONDS)
        return CommandOutput(None, output[:_MAX_BYTES].decode("utf-8", "replace"))


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its session, and all that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
