"""The promise of a minute, by the clock: real commands, a real connection, answers that drip or hang."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from launcher.failure_modes.model import AwsRefusal
from tests.emulator.faults import DRIP, HANG, Fault
from tools.attack.matrix.account import ENDED, RUNNING
from tools.attack.matrix.commands import LOOKS
from tools.attack.processes import served_account, start

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status", RUNNING),
    ("list",),
    ("logs", ENDED),
    ("check", "job.yaml", "--live"),
    ("check", "job.yaml", "--live", "--cluster", "./dev.json"),
)
FAULTS = (HANG, DRIP)
_CALLS = 10_000
"""More than any command makes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One command under one fault at every call: how long it took, and what is `wrong` with that."""

    command: str
    fault: str
    seconds: float
    exit_code: int | None
    wrong: str | None


def measured() -> Iterator[Measured]:
    """Every command under every fault, those of one fault at the same time."""
    for fault in FAULTS:
        with tempfile.TemporaryDirectory(prefix="slipway-attack-") as folder:
            yield from _under(fault, Path(folder))


def _under(fault: Fault, folder: Path) -> Iterator[Measured]:
    with served_account(folder, in_earnest=True) as (server, attacked):
        (folder / "dev.json").write_text(attacked.manifest.model_dump_json())
        server.rule("all", *[fault] * _CALLS)
        began = time.monotonic()
        running = {words: start(server, words, folder, folder) for words in COMMANDS}

        def ended(words: tuple[str, ...]) -> Measured:
            process = running[words]
            try:
                said, _ = process.communicate(timeout=2 * LOOKS)
            except subprocess.TimeoutExpired:
                process.kill()
                said, _ = process.communicate()
            seconds = time.monotonic() - began
            wrong = _wrong(process.returncode, seconds, said)
            return Measured(" ".join(words), fault.name, seconds, process.returncode, wrong)

        with ThreadPoolExecutor(len(running)) as pool:
            yield from pool.map(ended, running)


def _wrong(code: int, seconds: float, said: str) -> str | None:
    if seconds > LOOKS:
        return f"took {seconds:.0f} s, with a bound of {LOOKS:.0f} s"
    if "This is a fault of the launcher" in said or "Traceback" in said:
        return "crashed"
    # An account of which nothing could be seen is no reason to say that all is well.
    return None if code == AwsRefusal.exit_code else f"ended with {code}: {said.strip()[-200:]}"
