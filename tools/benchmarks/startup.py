"""What `launch --help` and `launch check` take of the processor, against importing the libraries they need.

Wanted: `--help` at most 1.5 times the import of the command line library, and `check` of a job with a script
at most 2.5 times the import of the libraries for arguments, models and YAML. Printed besides, without a
bound: `check` against these as far as it uses them (pydantic imports its other half when the first model is
made, and rich a module for each thing that it draws), and both ratios where nothing is compiled beforehand,
as in a container that is new. Ratios of medians in one run, so that a slow machine does not matter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools import ROOT
from tools.benchmarks.measuring import LAUNCH, Figure, medians, run_process

RUNS = 15
HELP_BOUND = 1.5
CHECK_BOUND = 2.5

BARE = "import cyclopts, pydantic, yaml\n"
DRAWN = "import rich.console, rich.table, rich.text\nclass Model(pydantic.BaseModel):\n    field: int\n"
COMMANDS = {
    "launch --help": [LAUNCH, "--help"],
    "import cyclopts": [sys.executable, "-c", "import cyclopts"],
    "launch check": [LAUNCH, "check", str(ROOT / "examples" / "ddp" / "job.yaml")],
    "the bare imports": [sys.executable, "-c", BARE],
    "its libraries": [sys.executable, "-c", BARE + DRAWN],
}
PAIRS = (
    ("launch --help", "import cyclopts", HELP_BOUND),
    ("launch check", "the bare imports", CHECK_BOUND),
    ("launch check", "its libraries", None),
)


def figures(folder: Path) -> Iterator[Figure]:
    """The ratios: with what Python compiled before, and without."""
    yield from _ratios(folder, "", {}, RUNS)
    nothing = {"PYTHONPYCACHEPREFIX": str(folder / "empty"), "PYTHONDONTWRITEBYTECODE": "1"}
    yield from _ratios(folder, ", nothing compiled before", nothing, RUNS // 3)


def _ratios(folder: Path, how: str, environment: Mapping[str, str], runs: int) -> Iterator[Figure]:
    def processor(command: list[str]) -> float:
        return run_process(command, folder=folder, environment=environment).processor

    middle = medians({what: lambda each=each: processor(each) for what, each in COMMANDS.items()}, runs)
    for one, other, bound in PAIRS:
        beside = f"{middle[one]:.3f} s and {middle[other]:.3f} s"
        yield Figure(
            f"{one} against {other}{how}", middle[one] / middle[other], None if how else bound, "", beside
        )
