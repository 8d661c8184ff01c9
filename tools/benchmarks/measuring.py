"""What all benchmarks share: whole processes, what takes turns, and figures with their bounds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

LAUNCH = str(Path(sys.executable).with_name("launch"))
MEGABYTE = 1e6 if sys.platform == "darwin" else 1e3
"""In the unit of getrusage(2): bytes there, kilobytes on Linux."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, with what is printed beside it. More than the `bound` fails the benchmark; with
    `at_least` less does, and nothing without a bound."""

    what: str
    seen: float
    bound: float | None = None
    unit: str = ""
    beside: str = ""
    at_least: bool = False

    def told(self) -> bool:
        """Print it; whether it is within its bound."""
        most = "least" if self.at_least else "most"
        limit = "no bound" if self.bound is None else f"at {most} {self.bound:.4g}{self.unit}"
        beside = f"; {self.beside}" if self.beside else ""
        print(f"{self.what}: {self.seen:.4g}{self.unit} ({limit}){beside}", flush=True)
        if self.bound is None:
            return True
        return self.seen >= self.bound if self.at_least else self.seen <= self.bound


@dataclass(frozen=True, slots=True)
class Run:
    """One whole process: seconds on the clock and of the processor, and the most memory that it held.

    The memory is at least that of the process that started it.
    """

    seconds: float
    processor: float
    megabytes: float
    code: int
    printed: bytes


def run_process(
    command: Sequence[str | Path],
    *,
    codes: Sequence[int] = (0,),
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    most_bytes: int | None = None,
) -> Run:
    """Run a command in a folder; `most_bytes` is what it may have of address space.

    Raises:
        subprocess.CalledProcessError: it ends with none of the codes.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**compiled_once(), **(environment or {})},
            stdout=output,
            stderr=errors,
            preexec_fn=limit if most_bytes else None,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        printed = output.read()
        if process.returncode not in codes:
            raise subprocess.CalledProcessError(process.returncode, command, printed, errors.read())
    processor = usage.ru_utime + usage.ru_stime
    return Run(seconds, processor, usage.ru_maxrss / MEGABYTE, process.returncode, printed)


def compiled_once() -> dict[str, str]:
    """The environment; compiled Python is kept, as where nothing is set: else it is compiled in every run."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds_of(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long it takes."""
    start = clock()
    action()
    return clock() - start


def in_turn(actions: Mapping[str, Callable[[], T]], runs: int, *, warm: bool = True) -> dict[str, list[T]]:
    """What each action gives, so many times: they take turns, so that other work on the machine slows all.

    A round before is not counted: Python compiles what has changed.
    """
    for action in actions.values() if warm else ():
        action()
    rounds = [{what: action() for what, action in actions.items()} for _ in range(runs)]
    return {what: [each[what] for each in rounds] for what in actions}


def medians(actions: Mapping[str, Callable[[], float]], runs: int, *, warm: bool = True) -> dict[str, float]:
    """The middle one of what each action gives."""
    return {what: median(given) for what, given in in_turn(actions, runs, warm=warm).items()}
