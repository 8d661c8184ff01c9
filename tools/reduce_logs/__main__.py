"""Make logs that were posted somewhere short and ours, and put them among the cases of the tests."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from tests.logs.cases import FOLDER, LogCase, log_cases, read_cases, written
from tools.reduce_logs.answers import answer_to
from tools.reduce_logs.fewest_lines import with_fewest_lines
from tools.reduce_logs.our_names import with_our_names


def main() -> None:
    """Reduce the cases of a file, and write each into the file of its failure mode."""
    parser = argparse.ArgumentParser(prog="python -m tools.reduce_logs", description=__doc__)
    parser.add_argument(
        "file", type=Path, help="whole logs with their labels, in the form of tests/logs/cases.py"
    )
    cases = {case.name: case for case in log_cases()}
    for whole in read_cases(parser.parse_args().file):
        cases[whole.name] = with_our_names(with_fewest_lines(whole))
        _tell(whole, cases[whole.name])
    write_cases(list(cases.values()))


def write_cases(cases: list[LogCase], folder: Path = FOLDER) -> None:
    """Write all cases of a folder, one file for each failure mode."""
    groups: dict[str, list[LogCase]] = defaultdict(list)
    for case in cases:
        groups[case.group].append(case)
    for file in folder.glob("*.test"):
        file.unlink()
    folder.mkdir(exist_ok=True)
    for name, group in groups.items():
        (folder / f"{name}.test").write_text(written(group), "utf-8")


def _tell(whole: LogCase, case: LogCase) -> None:
    before, after = (each.text.count("\n") for each in (whole, case))
    print(
        f"{case.name}: {before} lines -> {after} in {case.group}.test, answered {answer_to(case).judged[2]}"
    )


if __name__ == "__main__":
    main()
