"""How long `launch --help` takes against importing the command line library alone.

Bound: at most twice (ratio of medians in one run, so that a slow machine does not matter).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
BOUND = 2.0


def seconds(command: list[str]) -> float:
    """Wall time of one run of a command."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    """Measure in turn, print the ratio, exit with 1 where it is over the bound."""
    ours = [str(Path(sys.executable).with_name("launch")), "--help"]
    peer = [sys.executable, "-c", "import cyclopts"]
    pairs = [(seconds(ours), seconds(peer)) for _ in range(RUNS)]
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = mine / theirs
    print(f"launch --help {mine:.3f} s, import cyclopts {theirs:.3f} s: ratio {ratio:.2f} (bound {BOUND})")
    return 0 if ratio <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
