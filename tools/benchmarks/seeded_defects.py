"""How many of the defects that are put into public programs, one at a time, `launch lint` finds.

Bounds: 90 of 100 found at the line, of each kind 80 of 100, and in at most 2 of 100 a finding of another code
that was not there before; at least 400 mutants of 14 kinds, in 25 programs of 8 packages. The packages are in
two halves by the hash of their names: reader and rules are improved by half A alone, so that half B says how
many are found in programs that nobody looked at.

    python -m tools.benchmarks seeded_defects [--clones FOLDER] [--show KIND] [--missed] [--half A]

The packages are brought into build/seeded once, wheels by pip and repositories from GitHub, or from FOLDER,
where clones lie as owner/name. `--show` prints mutants of a kind, `--missed` those that are not found.
"""

from __future__ import annotations

import gc
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools import ROOT
from tools.benchmarks.measuring import Figure
from tools.benchmarks.seeding.sources import NotAtHand, Source, sources
from tools.benchmarks.seeding.trial import Outcome, Trial

FOLDER = ROOT / "build" / "seeded"
FOUND, FOUND_OF_A_KIND, WITH_OTHERS = 90, 80, 2
MUTANTS, KINDS, PROGRAMS, PACKAGES = 400, 14, 25, 8

Row = tuple[Source, str, Outcome]


def tried(entry: Path, root: Path) -> list[Outcome]:
    """All mutants of one program."""
    trial = Trial(entry, root)
    gc.freeze()  # The trees stay, and looking at them again and again takes time.
    return [trial.outcome(mutant) for mutant in trial.mutants]


def rows(wanted: Sequence[Source], clones: Path | None) -> list[Row]:
    """The outcomes in all programs; a place that several programs of a package share counts once."""
    places = []
    for source in wanted:
        try:
            root = source.brought(FOLDER, clones)
        except NotAtHand as error:
            print(f"{source.package} {source.version} left out: {error}")
            continue
        places += [(source, name, root) for name in source.programs]
    found: dict[tuple[str, str, str, int], Row] = {}
    with ProcessPoolExecutor() as pool:
        results = pool.map(tried, [root / name for _, name, root in places], [root for _, _, root in places])
        for (source, name, _), outcomes in zip(places, results, strict=True):
            for each in outcomes:
                found.setdefault((source.package, each.kind, each.file, each.line), (source, name, each))
    return list(found.values())


def _shares(of: Sequence[Outcome]) -> tuple[float, float]:
    """Of 100, how many are found, and with how many there are other codes."""
    return tuple(
        100 * sum(map(bool, each)) / len(of) for each in ([o.found for o in of], [o.others for o in of])
    )


def add_options(parser: ArgumentParser) -> None:
    """What is measured, and what is printed of it."""
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--show")
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--half", choices=["A", "B"], default="")


def figures(folder: Path, clones: Path | None, show: str | None, missed: bool, half: str) -> Iterator[Figure]:
    """What is found of each kind, of each half and of all, and how much was measured."""
    found = rows([each for each in sources() if each.half.startswith(half)], clones)
    for source, name, each in found:
        if show == each.kind or (missed and (not each.found or each.others)):
            print(f"{source.package} {name}: {each.file}:{each.line} {each.kind}, found: {each.found}")
            print(each.text, *each.said, sep="\n", end="\n\n")
    kinds = sorted({each.kind for _, _, each in found})
    for kind in kinds:
        of = [(source.half, each) for source, _, each in found if each.kind == kind]
        halves = [[each.found for half, each in of if half == name] for name in "AB"]
        share, others = _shares([each for _, each in of])
        counts = ", ".join(f"{sum(half)}/{len(half)}" for half in halves)
        beside = f"in A and B {counts}; with other codes {others:.0f} %"
        yield Figure(kind, share, FOUND_OF_A_KIND, " %", beside, at_least=True)
    for name, found_bound, others_bound in (("A", None, None), ("B", None, None), ("AB", FOUND, WITH_OTHERS)):
        of_half = [each for source, _, each in found if source.half in name]
        if of_half:
            share, others = _shares(of_half)
            yield Figure(
                f"half {name}, found", share, found_bound, " %", f"{len(of_half)} mutants", at_least=True
            )
            yield Figure(f"half {name}, with other codes", others, others_bound, " %")
    programs = {(source.package, name) for source, name, _ in found}
    yield Figure("mutants", len(found), MUTANTS, at_least=True)
    yield Figure("kinds", len(kinds), KINDS, at_least=True)
    yield Figure("programs", len(programs), PROGRAMS, at_least=True)
    yield Figure("packages", len({package for package, _ in programs}), PACKAGES, at_least=True)
