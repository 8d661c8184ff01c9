"""`launch lint` over public packages again, against what its findings there were labelled.

    python -m tools.benchmarks.real_programs.measure FOLDER

FOLDER holds the packages of packages.json, each in the folder that is named there, with an empty `.git` in
it, which makes it a project; those that are not there are left out. A package takes up to two minutes.
Exits with 1 where a finding has no label, a true one is gone, or one is back that was corrected.
"""

from __future__ import annotations

import sys
from pathlib import Path

from launcher.failure_modes.model import Severity
from launcher.session.lint_scripts import lint
from tools.checks.real_programs import EARLIER, NEW, Package, figures, labels, of_half, packages

Place = tuple[str, int, str]


def found_in(package: Package, place: Path) -> set[Place]:
    """The errors and warnings in a package: file, line and code."""
    judged = lint([place / package.part])
    return {
        (str(Path(each.location.file).relative_to(place)), each.location.line, each.code)
        for each in judged.findings
        if each.location is not None and each.severity is not Severity.INFO
    }


def differences(package: Package, found: set[Place]) -> list[str]:
    """What is not as the labels have it, a line each."""
    known = {
        (each.file, line, each.code): each
        for each in labels()
        if (each.package, each.version) == (package.name, package.version)
        for line in each.lines
    }
    told = [(place, "no label") for place in sorted(found - known.keys())]
    for place, label in known.items():
        expected = label.since or (label.now and not label.later)
        if expected and place not in found:
            told.append((place, "true, and gone" if label.true else "false, and gone: label it as corrected"))
        elif place in found and not expected:
            told.append((place, "was corrected, and is back"))
    return [f"{package.name} {file}:{line} {code}: {what}" for (file, line, code), what in told]


def main() -> int:
    """Measure what is there, print what differs and the figures, exit with 1 where something differs."""
    if len(sys.argv) != 2:
        print("usage: python -m tools.benchmarks.real_programs.measure FOLDER", file=sys.stderr)
        return 2
    folder, differ = Path(sys.argv[1]), []
    there = [each for each in packages() if each.half != EARLIER and (folder / each.folder).is_dir()]
    for package in there:
        differ += differences(package, found_in(package, folder / package.folder))
        print(f"{package.name}: looked at", flush=True)
    print(*differ, sep="\n")
    for half in NEW:
        counted = figures(each for each in of_half(half, labels()) if each.now)
        share, bound = counted.precision, counted.bound
        print(f"half {half}: {counted.true} of {counted.found} are true, {share:.0%} (at least {bound:.0%})")
    return 1 if differ or not there else 0


if __name__ == "__main__":
    sys.exit(main())
