"""Write docs/contributing/lint-findings.md from the labels of findings in public programs.

The labels are in tools/benchmarks/real_programs/, everything else comes from
tools/generate/pages/lint-findings.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tools.checks.real_programs import EARLIER, HALVES, NEW, Label, figures, labels, of_half, packages
from tools.generate.generated import ROOT, filled_in, table_of

PAGE = ROOT / "docs" / "contributing" / "lint-findings.md"
TYPE_BOOL = "CODE002"
"""`type=bool`, which copies of one script repeat: told apart."""

_NAMES = {
    "A": "Half A: the rules were corrected by it",
    "B": "Half B: only measured, then corrected by, too",
    "C": "Half C: fetched when the rules had been corrected by B; then corrected by it",
    "D": "Half D: fetched when they had been corrected by C, and only measured, then corrected by it",
    "E": "Half E: fetched when they had been corrected by D, and only measured",
    "F": "Half F: fetched when severities had been set by the evidence of A to E; then corrected by it",
    "G": "Half G: fetched when they had been corrected by F, and only measured",
    "H": "Half H: chosen by name, with I, when the rules had gone on since G; then corrected by it",
    "I": "Half I: chosen with H; then corrected by it, too",
    "J": "Half J: chosen by name when they had been corrected by H and I; then corrected by it",
    "K": "Half K: chosen by name when they had been corrected by J, and only measured",
    EARLIER: "Earlier: the rules were corrected by it, too",
}


def generated() -> dict[Path, str]:
    """What the page should hold now."""
    every = labels()
    parts = {
        "sizes": table_of(("", "Packages", "Programs"), _sizes(), (1, 2)),
        "figures": table_of(("", *_COLUMNS), _figures(every), (1, 2, 3, 4)),
        "codes": table_of(
            ("Code", *_COLUMNS),
            _codes([each for half in NEW for each in of_half(half, every)]),
            (1, 2, 3, 4),
        ),
    }
    return {PAGE: filled_in(PAGE, __name__, "tools/benchmarks/real_programs/", parts)}


_COLUMNS = ("True", "Of", "Precision", "At least, with 95 % confidence")
Row = tuple[object, ...]


def _sizes() -> Iterator[Row]:
    for half in HALVES:
        chosen = [each for each in packages() if each.half == half]
        yield _NAMES[half], len(chosen), sum(each.programs for each in chosen)


def _figures(every: Sequence[Label]) -> Iterator[Row]:
    for half in HALVES:
        mine = of_half(half, every)
        for when in ("before", "now"):
            chosen = [each for each in mine if getattr(each, when)]
            others = [each for each in chosen if each.code != TYPE_BOOL]
            yield _line(f"{half}, {when}", chosen)
            yield _line(f"{half}, {when}, without {TYPE_BOOL}", others)


def _codes(new: Sequence[Label]) -> Iterator[Row]:
    now = [each for each in new if each.now]
    for code in sorted({each.code for each in now}):
        yield _line(code, [each for each in now if each.code == code])


def _line(name: str, chosen: Iterable[Label]) -> Row:
    counted = figures(chosen)
    shares = (
        f"{100 * share:.0f} %" if counted.found else "-" for share in (counted.precision, counted.bound)
    )
    return name, counted.true, counted.found, *shares
