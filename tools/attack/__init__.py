"""Slipway under attack: faults, hostile input and kills by the thousand, and the figures of what came of it.

`python -m tools.attack` runs all of it and writes `tools/attack/figures.json`; a sample of each is in
`tests/tools/attack`.
"""

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if "tests" not in sys.modules:
    # Another distribution brings a package `tests`; ours has none of its own, so it is named here.
    sys.modules["tests"] = types.ModuleType("tests")
    sys.modules["tests"].__path__ = [str(ROOT / "tests")]
