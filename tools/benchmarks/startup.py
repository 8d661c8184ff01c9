"""How long `launch --help` and `launch check` take against importing the libraries that they need.

Bounds: `--help` at most twice the import of the command line library; `check` of a job file at most 1.6 times
the libraries that it needs, as far as it needs them: pydantic imports its other half when the first model is
made, and rich a module for each thing that it draws. Printed besides, without a bound: `check` against the
bare `import cyclopts, yaml; from pydantic import BaseModel`, of which the first model and rich alone make 1.5
times. Ratios of medians in one run, so that a slow machine does not matter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tools import ROOT
from tools.benchmarks.measuring import LAUNCH, Figure, medians, run_process

RUNS = 15
HELP_BOUND = 2.0
CHECK_BOUND = 1.6

BARE = "import cyclopts, yaml\nfrom pydantic import BaseModel\n"
DRAWN = "import rich.console, rich.table, rich.text\nclass Model(BaseModel):\n    field: int\n"
COMMANDS = {
    "launch --help": [LAUNCH, "--help"],
    "import cyclopts": [sys.executable, "-c", "import cyclopts"],
    "launch check": [LAUNCH, "check", str(ROOT / "examples" / "ddp" / "job.yaml")],
    "the bare imports": [sys.executable, "-c", BARE],
    "its libraries": [sys.executable, "-c", BARE + DRAWN],
}


def figures(folder: Path) -> Iterator[Figure]:
    """The ratios."""

    def seconds(command: list[str]) -> float:
        return run_process(command, folder=folder).seconds

    middle = medians({what: lambda each=each: seconds(each) for what, each in COMMANDS.items()}, RUNS)
    for one, other, bound in (
        ("launch --help", "import cyclopts", HELP_BOUND),
        ("launch check", "its libraries", CHECK_BOUND),
        ("launch check", "the bare imports", None),
    ):
        beside = f"{middle[one]:.3f} s and {middle[other]:.3f} s"
        yield Figure(f"{one} against {other}", middle[one] / middle[other], bound, "", beside)
