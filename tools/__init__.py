"""Generators, benchmarks, attacks and checks, started by `python -m tools.NAME`."""

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if "tests" not in sys.modules:
    # Another distribution brings a package `tests`; ours has none of its own, so it is named here.
    sys.modules["tests"] = types.ModuleType("tests")
    sys.modules["tests"].__path__ = [str(ROOT / "tests")]
