"""How long `launch --help` and `launch check` take against importing the libraries that they need.

Bounds: `--help` at most twice the import of the command line library; `check` of a job file at most 1.6 times
the libraries that it needs, as far as it needs them: pydantic imports its other half when the first model is
made, and rich a module for each thing that it draws. Printed besides, without a bound: `check` against the
bare `import cyclopts, yaml; from pydantic import BaseModel`, of which the first model and rich alone make 1.5
times. Ratios of medians in one run, so that a slow machine does not matter.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 15
HELP_BOUND = 2.0
CHECK_BOUND = 1.6

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = str(Path(sys.executable).with_name("launch"))
BARE = "import cyclopts, yaml\nfrom pydantic import BaseModel\n"
COMMANDS = {
    "launch --help": [LAUNCH, "--help"],
    "import cyclopts": [sys.executable, "-c", "import cyclopts"],
    "launch check": [LAUNCH, "check", str(ROOT / "examples" / "ddp" / "job.yaml")],
    "bare imports": [sys.executable, "-c", BARE],
    "its libraries": [
        sys.executable,
        "-c",
        f"{BARE}import rich.console, rich.table, rich.text\nclass Model(BaseModel):\n    field: int\n",
    ],
}


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one run of a command in a folder.

    Raises:
        subprocess.CalledProcessError: the command fails.
    """
    # Compiled Python is kept, as where nothing is set; else our own modules are compiled in every run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    return time.perf_counter() - start


def main() -> int:
    """Measure in turn, print the ratios, exit with 1 where one is over its bound."""
    with tempfile.TemporaryDirectory(prefix="slipway-benchmark-") as folder:
        for command in COMMANDS.values():
            seconds(command, folder)  # not counted: Python compiles what has changed
        rounds = [{what: seconds(each, folder) for what, each in COMMANDS.items()} for _ in range(RUNS)]
    median = {what: statistics.median(each[what] for each in rounds) for what in COMMANDS}
    help_ratio = median["launch --help"] / median["import cyclopts"]
    check_ratio = median["launch check"] / median["its libraries"]
    print(
        f"launch --help {median['launch --help']:.3f} s, import cyclopts {median['import cyclopts']:.3f} s: "
        f"ratio {help_ratio:.2f} (bound {HELP_BOUND})"
    )
    print(
        f"launch check {median['launch check']:.3f} s, its libraries {median['its libraries']:.3f} s: "
        f"ratio {check_ratio:.2f} (bound {CHECK_BOUND}); "
        f"against the bare imports, {median['bare imports']:.3f} s: "
        f"{median['launch check'] / median['bare imports']:.2f}"
    )
    return 0 if help_ratio <= HELP_BOUND and check_ratio <= CHECK_BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
