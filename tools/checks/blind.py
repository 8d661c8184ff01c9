"""How many of the blind examples of each cell are judged right.

`python -m tools.checks.blind [--runs] [--half fourth] [CODE ...]`

Prints a line for each cell and, for each example that is judged wrong, its place and what was said of it.
Without codes and halves it writes the counts to tests/blind/results.json, from which the pages of the
failure modes and `launch explain` have them. With `--runs` it judges the examples that are really run on this
machine, in half an hour, and none of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from launcher.failure_modes.model import Stage
from tests.blind.cases import FOLDERS, HALVES, QUICK, RESULTS, Verdict, counts_of, verdicts


def main() -> int:
    """Judge the examples that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("codes", nargs="*", metavar="CODE")
    parser.add_argument("--half", choices=HALVES, action="append")
    parser.add_argument("--runs", action="store_true")
    chosen = parser.parse_args()
    stages = (Stage.RUNTIME,) if chosen.runs else QUICK
    found = [each for half in chosen.half or HALVES for each in verdicts(half, chosen.codes, stages)]
    print(table(found))
    if not chosen.codes and not chosen.half:
        counts = {**counts_of(found)}
        for code, others in json.loads(RESULTS.read_text("utf-8")).items():
            kept = {stage: count for stage, count in others.items() if Stage(stage) not in stages}
            counts[code] = {**counts.get(code, {}), **kept}
        RESULTS.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n", "utf-8")
    return 0


def table(found: Sequence[Verdict]) -> str:
    """A line for each cell, the examples that are judged wrong, and the sums."""
    lines = [
        f"{code} {stage}: {right} of {examples}"
        for code, stages in counts_of(found).items()
        for stage, (right, examples) in stages.items()
    ]
    lines += [f"{each.case.place}: {each.case.name}: {each.said}" for each in found if not each.is_right]
    for stage in FOLDERS:
        for expected, what in ((True, "defects found"), (False, "right ones left alone")):
            of_kind = [each for each in found if (each.case.stage, each.case.expected) == (stage, expected)]
            lines.append(f"{stage.value}, {what}: {sum(each.is_right for each in of_kind)} of {len(of_kind)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
