"""The program of forked_ranks.py, kept running for all tests of a process that train on several ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("forked_ranks.py"))]


class ForkedRanks:
    """Runs scripts on ranks. What their program imports takes longer than most of its runs."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[str] | None = None

    def train(self, script: Path, ranks: int, *runs: dict[str, Any]) -> list[str]:
        """What all ranks of each run printed; forked_ranks.py says what a run is."""
        return [str(self._ask({"script": str(script), "world_size": ranks, **run})) for run in runs]

    def run_cases(self, file: str, ranks: int, folder: Path, names: list[str]) -> bool:
        """Run these functions of a test file on so many ranks (tests/slipway/worlds.py)."""
        wanted = {"file": file, "world_size": ranks, "folder": str(folder), "names": names}
        return bool(self._ask({**wanted, "environment": dict(os.environ)}))

    def close(self) -> None:
        """End the program; the next run starts another one."""
        if self._program is not None:
            self._program.kill()
            self._program.communicate()
            self._program = None

    def _ask(self, wanted: dict[str, Any]) -> Any:
        try:
            if self._program is None:
                pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT)}
                self._program = subprocess.Popen(
                    PROGRAM, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True
                )
            assert self._program.stdin is not None and self._program.stdout is not None
            self._program.stdin.write(json.dumps(wanted) + "\n")
            self._program.stdin.flush()
            line = self._program.stdout.readline()
            assert line, "the program has ended"
            return json.loads(line)
        except BaseException:
            self.close()  # Else the next test would read what this one did not wait for.
            raise
