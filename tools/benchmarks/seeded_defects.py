"""How many of the defects that are put into public programs, one at a time, `launch lint` finds.

Bounds: 90 of 100 found at the line, of each kind 80 of 100, and in at most 2 of 100 a finding of another code
that was not there before; at least 400 mutants of 14 kinds, in 25 programs of 8 packages. The packages are in
two halves by the hash of their names: reader and rules are improved by half A alone, so that half B says how
many are found in programs that nobody looked at.

    python tools/benchmarks/seeded_defects.py [--clones FOLDER] [--show KIND] [--missed] [--half A]

The packages are brought into build/seeded once, wheels by pip and repositories from GitHub, or from FOLDER,
where clones lie as owner/name. `--show` prints mutants of a kind, `--missed` those that are not found.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.benchmarks.seeding.sources import NotAtHand, Source, sources
from tools.benchmarks.seeding.trial import Outcome, Trial

FOLDER = Path(__file__).resolve().parents[2] / "build" / "seeded"
FOUND, FOUND_OF_A_KIND, WITH_OTHERS = 0.9, 0.8, 0.02
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


def table(found: Sequence[Row]) -> bool:
    """Print the figures of each kind; whether each is within its bound."""
    within = True
    print(f"{'kind':45} {'A':>9} {'B':>9} {'found':>6} other codes")
    for kind in sorted({each.kind for _, _, each in found}):
        of = [(source.half, each) for source, _, each in found if each.kind == kind]
        halves = [[each for half, each in of if half == name] for name in "AB"]
        share = sum(each.found for _, each in of) / len(of)
        within &= share >= FOUND_OF_A_KIND
        counts = [f"{sum(each.found for each in half)}/{len(half)}" for half in halves]
        others = sum(bool(each.others) for _, each in of)
        print(f"{kind:45} {counts[0]:>9} {counts[1]:>9} {share:6.0%} {others}")
    for name in ("A", "B", "AB"):
        of_half = [each for source, _, each in found if source.half in name]
        if of_half:
            share, others_share = _shares(of_half)
            print(
                f"half {name}: {len(of_half)} mutants, {share:.1%} found, {others_share:.1%} with other codes"
            )
    share, others_share = _shares([each for _, _, each in found])
    return within and share >= FOUND and others_share <= WITH_OTHERS


def _shares(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    count = len(outcomes)
    return sum(each.found for each in outcomes) / count, sum(bool(each.others) for each in outcomes) / count


def enough(found: Sequence[Row]) -> bool:
    """Print what was measured; whether it is as much as was wanted."""
    programs = {(source.package, name) for source, name, _ in found}
    counts = (
        (len(found), MUTANTS, "mutants"),
        (len({each.kind for _, _, each in found}), KINDS, "kinds"),
        (len(programs), PROGRAMS, "programs"),
        (len({package for package, _ in programs}), PACKAGES, "packages"),
    )
    print(", ".join(f"{count} {what} (at least {bound})" for count, bound, what in counts))
    return all(count >= bound for count, bound, _ in counts)


def main() -> int:
    """Measure, print the figures, exit with 1 where one is outside of its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--show")
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--half", choices=["A", "B"], default="")
    options = parser.parse_args()
    found = rows([each for each in sources() if each.half.startswith(options.half)], options.clones)
    for source, name, each in found:
        if options.show == each.kind or (options.missed and (not each.found or each.others)):
            print(f"{source.package} {name}: {each.file}:{each.line} {each.kind}, found: {each.found}")
            print(each.text, *each.said, sep="\n", end="\n\n")
    if not found:
        print("nothing was measured: no package could be had")
        return 1
    return 0 if table(found) & enough(found) else 1


if __name__ == "__main__":
    sys.exit(main())
