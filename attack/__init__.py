"""Slipway under attack: faults, hostile input and kills by the thousand, and the figures of what came of it.

`python -m attack` runs all of it and writes `attack/figures.json`; a sample of each is in `tests/attack`.
"""

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if "tests" not in sys.modules:
    # Another distribution brings a package `tests`; ours has none of its own, so it is named here.
    sys.modules["tests"] = types.ModuleType("tests")
    sys.modules["tests"].__path__ = [str(ROOT / "tests")]
