"""One program: its mutants, and what the lint says of them before and after."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.failure_modes.model import Finding
from launcher.program.index import Unread
from launcher.program.program import FileCache, Program, read_program
from launcher.rules.script.check import check_program
from tools.benchmarks.seeding import collective_kinds, data_kinds, launch_kinds  # noqa: F401 - they add KINDS
from tools.benchmarks.seeding.site import Mutant, Site
from tools.benchmarks.seeding.whole import KINDS, Whole

MOST_A_KIND = 4
"""So many mutants of one kind are made of one program, so that none is the whole figure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant, whether it was found at its line, and which other codes are found more often than before."""

    kind: str
    file: str
    line: int
    found: bool
    others: tuple[str, ...]
    said: tuple[str, ...]
    text: str


def mutants(program: Program) -> Iterator[Mutant]:
    """The mutants of a program, at most some of each kind, each valid Python and different from the file."""
    sites = [Site(file.path, file.text) for file in program.files]
    texts = {site.path: site.text for site in sites}
    made = Counter[str]()
    whole = Whole(sites)
    for kind in KINDS:
        for mutant in kind(whole):
            if made[mutant.kind] < MOST_A_KIND and mutant.text != texts[mutant.path] and _compiles(mutant):
                made[mutant.kind] += 1
                yield mutant


def _compiles(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.text)
    except SyntaxError:
        return False
    return True


class Trial:
    """The lint of one program, as it is and with a defect; other files than the changed one are read once."""

    def __init__(self, entry: Path, root: Path) -> None:
        """Raises ValueError where the entry cannot be read."""
        self.entry, self.root = entry, root
        self.changed: dict[str, bytes] = {}
        self.cache = FileCache(self.changed)
        program = self._read()
        self.mutants = list(mutants(program))
        self.before = check_program(program)

    def _read(self) -> Program:
        program = read_program(self.entry, self.root, self.cache)
        if isinstance(program, Unread):
            raise ValueError(f"{program.path}: {program.reason}")
        return program

    def outcome(self, mutant: Mutant) -> Outcome:
        """What the lint says of one mutant."""
        real = os.path.realpath(mutant.path)
        self.changed[real] = mutant.text.encode()
        self.cache.forget(mutant.path)
        after = check_program(self._read())
        del self.changed[real]
        self.cache.forget(mutant.path)
        here = [each for each in after if each.code in mutant.codes and _at(each, mutant)]
        counted = Counter(each.code for each in after)
        counted.subtract(each.code for each in self.before)
        others = sorted(code for code, more in counted.items() if more > 0 and code not in mutant.codes)
        new = [each for each in after if counted[each.code] > 0]
        return Outcome(
            mutant.kind,
            str(mutant.path.relative_to(self.root)),
            min(mutant.lines),
            bool(here) and len(here) > self._already(mutant),
            tuple(others),
            tuple(f"{each.code} {each.location.line if each.location else 0} {each.message}" for each in new),
            _shown(mutant),
        )

    def _already(self, mutant: Mutant) -> int:
        """How many findings at these lines were there before, where the lines have not moved."""
        same = mutant.text.count("\n") == _text(mutant.path).count("\n")
        return sum(each.code in mutant.codes and _at(each, mutant) for each in self.before) if same else 0


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _at(finding: Finding, mutant: Mutant) -> bool:
    place = finding.location
    return (
        place is not None
        and os.path.realpath(place.file) == os.path.realpath(mutant.path)
        and place.line in mutant.lines
    )


def _shown(mutant: Mutant) -> str:
    """The lines around the defect, for people."""
    lines = mutant.text.splitlines()
    first, last = min(mutant.lines), max(mutant.lines)
    return re.sub(
        r"^", "    ", "\n".join(lines[max(0, first - 5) : min(last + 3, first + 12)]), flags=re.MULTILINE
    )
