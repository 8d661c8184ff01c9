"""Cases by the thousand, in forks: one that crashes, hangs or eats memory does not end the others.

hypothesis makes the cases of a seed; where one fails it looks for the smallest one that fails alike.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import DataObject, data

from tools.attack.forks import in_forks
from tools.attack.fuzzing.areas import Area
from tools.attack.fuzzing.handing_over import user_in

BATCH = 100
CASE_SECONDS = 10
"""Of wall clock, after which a case counts as hanging; on a quiet machine one takes milliseconds."""

MEMORY_BYTES = 6 * 1024**3
"""Of address space that a batch may add: a process that has everything loaded needs half a gigabyte, and
each thread that works for a command is given eight megabytes, and now and then 64."""


@dataclass(slots=True)
class Fuzzed:
    """What came of an area: how many cases were tried, how often each cause of a failure was met, and of its
    first time the seed, which makes the cases again, and the smallest case."""

    area: Area
    tried: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    slowest_seconds: float = 0.0
    grown_bytes: int = 0
    """The most that the memory of a process grew by over its cases."""


def fuzz(area: Area, number: int, *, first_seed: int = 0, at_once: int = 2) -> Fuzzed:
    """Try an area with so many cases, a hundred of each seed."""
    found = Fuzzed(area)
    batches = {first_seed + start // BATCH: min(BATCH, number - start) for start in range(0, number, BATCH)}
    with tempfile.TemporaryDirectory(prefix="slipway-attack-") as folder:
        for ended in in_forks(
            batches,
            lambda seed: _run(area, batches[seed], seed, Path(folder)),
            at_once=at_once,
            seconds=CASE_SECONDS * BATCH,
            memory_bytes=MEMORY_BYTES,
        ):
            answer = ended.answer or {"tried": 1, "failed": [(ended.trouble, "")], "slowest": 0, "grown": 0}
            found.tried += answer["tried"]
            for cause, example in answer["failed"]:
                found.failed[cause] += 1
                found.examples.setdefault(cause, f"seed {ended.task} {example}")
            found.slowest_seconds = max(found.slowest_seconds, answer["slowest"])
            found.grown_bytes = max(found.grown_bytes, answer["grown"])
    return found


def try_cases(attempt: Callable[[DataObject], None], number: int, of_seed: int) -> None:
    """Try as many cases of a seed; raises what the launcher should not have raised, in the smallest case."""

    @seed(of_seed)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(data())
    def try_each(drawn: DataObject) -> None:
        attempt(drawn)

    try_each()


def _run(area: Area, number: int, of_seed: int, folder: Path) -> dict[str, Any]:
    own = folder / str(os.getpid())
    own.mkdir()
    took, failed, before = [0.0], [], _memory()

    def attempt(drawn: DataObject) -> None:
        # What waits is interrupted; what does not come back to Python is ended by its time of the processor.
        signal.alarm(CASE_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, 2 * CASE_SECONDS)
        began = time.process_time()
        area.attack(drawn.draw, own)
        took.append(time.process_time() - began)

    signal.signal(signal.SIGALRM, _hung)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with user_in(own):
        try:
            try_cases(attempt, number, of_seed)
        except ExceptionGroup as several:
            failed = [_cause(error) for error in several.exceptions]
        except Exception as error:
            failed = [_cause(error)]
    signal.alarm(0)
    return {"tried": len(took) - 1, "failed": failed, "slowest": max(took), "grown": _memory() - before}


def _hung(*_: object) -> NoReturn:
    raise TimeoutError(f"hung for {CASE_SECONDS} s")


def _cause(error: BaseException) -> tuple[str, str]:
    """What was raised, and hypothesis' words on the smallest case in which it was."""
    case = " ".join(" ".join(getattr(error, "__notes__", ())).split())
    return f"{type(error).__name__}: {error}"[:80], case[:400]


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
