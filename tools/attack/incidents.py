"""Measure the diagnosis by told incidents.

python -m tools.attack.incidents 500                # the first 500
python -m tools.attack.incidents 500 --half odd     # of those the ones with odd numbers
python -m tools.attack.incidents --show 17 FOLDER   # write the files of one, and say what is right
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tests.diagnosis.incidents.roots import ROOTS
from tests.diagnosis.incidents.told import Grade, told


def main() -> None:
    """Print what is wrong as it comes, then a line for each kind and for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=500)
    parser.add_argument("--half", choices=("even", "odd"))
    parser.add_argument("--show", nargs=2, metavar=("NUMBER", "FOLDER"))
    words = parser.parse_args()
    if words.show is not None:
        _show(int(words.show[0]), Path(words.show[1]))
        return
    grades: dict[str, Counter[Grade]] = {}
    for seed in range(words.count):
        if words.half is not None and is_even(seed) != (words.half == "even"):
            continue
        incident = told(seed)
        found = incident.diagnosis()
        grade = incident.grade(found)
        grades.setdefault(incident.kind, Counter())[grade] += 1
        if grade is not Grade.RIGHT:
            cause = found.root_cause
            said = f"{cause.finding.code} rank {cause.rank}: {cause.finding.message[:110]}" if cause else ""
            job = incident.job
            how = f"{job.layout} {job.clock} {job.version} {job.ranks}"
            print(
                f"{seed} {incident.kind} ({how}): {grade}, {incident.expected.codes[0]} rank {incident.expected.culprit} {found.retry} {said!r}",
                flush=True,
            )
    for kind, counted in grades.items():
        print(f"{kind}: {_in_words(counted)}")
    print(f"all: {_in_words(sum(grades.values(), Counter()))}")


def is_even(seed: int) -> bool:
    """Whether an incident is of the half that may be looked at."""
    return seed // len(ROOTS) % 2 == 0


def _in_words(counted: Counter[Grade]) -> str:
    total = sum(counted.values())
    wrong = ", ".join(f"{count} {grade}" for grade, count in counted.items() if grade is not Grade.RIGHT)
    return f"{counted[Grade.RIGHT]} of {total} right" + (f" ({wrong})" if wrong else "")


def _show(seed: int, folder: Path) -> None:
    incident = told(seed)
    for name, content in incident.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    print(incident.kind, incident.expected, incident.job.layout, incident.job.clock, incident.job.version)


if __name__ == "__main__":
    main()
