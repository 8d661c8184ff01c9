"""Measure, print the figures, and exit with 1 where one is not within its bound.

python -m tools.benchmarks                    all of them, each in a process of its own
python -m tools.benchmarks lint               one
python -m tools.benchmarks diagnosis -h       what one measures, and its options
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

NAMES = (
    *("checkpoint_save", "checkpoint_uploads", "diagnosis", "gate", "guarding", "lint", "lint_hostile"),
    *("live_facts", "log_following", "planning", "restarting", "seeded_defects", "startup", "synthesis"),
    "watchdog",
)
"""The modules, each with a function `figures`, which gets a folder and what `add_options` adds."""


def main(words: Sequence[str]) -> int:
    """Run one, or all."""
    if not words:
        ends = []
        for name in NAMES:
            print(f"== {name}", flush=True)
            ends.append(subprocess.run([sys.executable, "-m", "tools.benchmarks", name]).returncode)
        return max(ends)
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", add_help=words[0] not in NAMES)
    parser.add_argument("name", choices=NAMES)
    name = parser.parse_known_args(words)[0].name
    module = import_module(f"tools.benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    getattr(module, "add_options", lambda parser: None)(parser)
    options = parser.parse_args(words[1:])
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="slipway-benchmark-", ignore_cleanup_errors=True) as folder:
        within = [figure.told() for figure in module.figures(Path(folder), **vars(options))]
    return 0 if within and all(within) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
