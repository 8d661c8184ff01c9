"""The public programs over which the lint was run, and what each of its findings there is worth.

The data is in tools/benchmarks/real_programs/, whose README says how labels are given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

from tools.generate.generated import ROOT

DATA = ROOT / "tools" / "benchmarks" / "real_programs"
EARLIER = "earlier"
NEW = ("A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K")
"""The halves that were fetched to measure the rules, one after another."""
HALVES = (*NEW, EARLIER)
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Package:
    """A package at one version: how many programs it holds, and how many files these are made of.

    `source` says where it is from (`pypi:NAME`, `github:OWNER/NAME`), `archive` and `sha256` which file of
    PyPI it is; `folder` is where it lies to be measured, `part` what of it is judged. The half `earlier` has
    none of these.
    """

    name: str
    version: str
    half: str
    programs: int
    files: int
    source: str = ""
    part: str = ""
    folder: str = ""
    archive: str = ""
    sha256: str = ""

    @property
    def short(self) -> str:
        """The version as tables show it: seven digits of a commit."""
        return self.version[:7] if len(self.version) == 40 else self.version


@dataclass(frozen=True, slots=True)
class Label:
    """Findings of one code in one file, and whether they are true. `before` says that they were there before
    the rules were corrected, `now` that they were in the measurement after it, `later` that they were
    corrected when its figures stood, `since` that rules find them which came after that."""

    package: str
    version: str
    file: str
    lines: tuple[int, ...]
    code: str
    true: bool
    before: bool
    now: bool
    why: str
    later: bool = False
    since: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """How many findings there are, and how many of them are true."""

    true: int
    found: int

    @property
    def precision(self) -> float:
        """The share of the true ones, from 0 to 1; 1 where there is none."""
        return self.true / self.found if self.found else 1.0

    @property
    def bound(self) -> float:
        """Above which the precision is with 95 % confidence, by Clopper and Pearson; 0 where there is none.

        It takes the findings for drawn one by one, which those of one file are not.
        """
        low, high = 0.0, self.precision
        for _ in range(50):
            middle = (low + high) / 2
            if _at_least(self.true, self.found, middle) < 1 - CONFIDENCE:
                low = middle
            else:
                high = middle
        return low if self.found else 0.0


def packages() -> list[Package]:
    """Every package, in the order of the file."""
    return [Package(**row) for row in _rows("packages.json")]


def labels() -> list[Label]:
    """Every label, in the order of the file."""
    return [Label(**{**row, "lines": tuple(row["lines"])}) for row in _rows("labels.json")]


def half_of(name: str, halves: str = "AB") -> str:
    """The half that a package is of, of two that were fetched together (A and B, H and I): by the first byte
    of its name's SHA-256."""
    return halves[hashlib.sha256(name.lower().encode()).digest()[0] % 2]


def figures(chosen: Iterable[Label]) -> Figures:
    """The figures of some labels, each line counted."""
    counted = [(each.true, len(each.lines)) for each in chosen]
    return Figures(sum(n for true, n in counted if true), sum(n for _, n in counted))


def of_half(half: str, among: Sequence[Label]) -> list[Label]:
    """The labels of the packages of a half."""
    there = {(each.name, each.version) for each in packages() if each.half == half}
    return [each for each in among if (each.package, each.version) in there]


def _at_least(true: int, found: int, precision: float) -> float:
    """How likely so many or more of the findings are true, at a precision."""
    return sum(comb(found, n) * precision**n * (1 - precision) ** (found - n) for n in range(true, found + 1))


def _rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(DATA / name).read_text(encoding="utf-8"))
    return found
