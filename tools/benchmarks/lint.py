"""How long `launch lint` takes, against the bare parsing of the same files and against importing nothing.

Bounds: a program at most five times `ast.parse` of the files that it is made of, be they three long ones or
300, of which some import one another in a chain, most are models that nothing distributed stands in, and all
use one helper; a file of 10,000 lines under a second, one of 50,000 under 10 s (of the processor's time, as
this is long) and 1 GB; `launch lint` of one script of 300 lines, from the shell, under 0.3 s; and of the work
on 1,000 scripts the starting process does at most a fifth, where there are several cores (the rest is shared
equally by as many processes, so that this holds on a busy machine as well); and a folder of 500 programs that
import one package of 299 files under a minute, by the time that a tenth of them takes. The programs are made
of the examples' own training functions under other names. Short times are the shortest of several runs, as
what else runs on the machine only adds to them; two that are compared are of the processor's time.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from launcher.session.lint_scripts import lint
from tools import ROOT
from tools.benchmarks.measuring import LAUNCH, Figure, run_process, seconds_of

RUNS = 5
PARSING_BOUND = 5.0
LARGE_LINES, LARGE_BOUND = 10_000, 1.0
HUGE_LINES, HUGE_BOUND, MEMORY_BOUND = 50_000, 10.0, 1000.0
FILES, CHAIN = 300, 20
SHELL_LINES, SHELL_BOUND = 300, 0.3
SCRIPTS, OWN_BOUND = 1_000, 0.2
PROGRAMS, PROGRAMS_BOUND = 500, 60.0

DEFINED = re.compile(r"^(?:def |class |(?=[A-Z]+ = ))(\w+)", re.MULTILINE)
"""The functions, classes and constants of a script."""
PARTS = ("ddp", "fsdp", "accelerate", "lightning")


def program(lines: int, start: str = "") -> str:
    """A script of so many lines: the examples again and again, each time with names of its own."""
    texts = [(ROOT / "examples" / part / "src" / "train.py").read_text("utf-8") for part in PARTS]
    written: list[str] = [start]
    number = 0
    while sum(text.count("\n") for text in written) < lines:
        text = texts[number % len(texts)].replace("from __future__ import annotations\n", "")
        names = "|".join(DEFINED.findall(text))
        written.append(re.sub(rf"(?<![.\w])({names})\b(?!=)", rf"\1_{number}", text))
        number += 1
    return "".join(written)


def against_parsing(what: str, entry: Path, texts: list[str], runs: int) -> Figure:
    """How many times as much of the processor's time a program takes as `ast.parse` of its files.

    The shortest of each, one after the other, with nothing left behind: none pays for what one before it has
    used.
    """

    def shortest(action: Callable[[], object]) -> float:
        taken: list[float] = []
        for _ in range(runs):
            gc.collect()
            taken.append(seconds_of(action, time.process_time))
        return min(taken)

    assert lint([entry]).files == len(texts)
    ours = shortest(lambda: lint([entry]))
    return Figure(what, ours / shortest(lambda: [ast.parse(text) for text in texts]), PARSING_BOUND)


def of_few_files(folder: Path) -> Iterator[Figure]:
    """A program of three files."""
    texts = {"part_0.py": program(400), "part_1.py": program(400)}
    texts["whole.py"] = program(400, "import part_0\nimport part_1\n")
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    what = "a program against ast.parse of its files"
    yield against_parsing(what, folder / "whole.py", [*texts.values()], 4 * RUNS)


LIBRARY = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
IMPORTS = "from package import block_0\nfrom package.shared import mean\n"


def write_package(package: Path) -> list[str]:
    """Write a package of models, which is all but one file of the program of 300; its texts."""
    package.mkdir(parents=True)
    count = FILES - 3
    texts = {package / "shared.py": LIBRARY["shared"]}
    for number in range(count):
        after = f"from package.model_{number + 1} import block_{number + 1}\n" if number < CHAIN else ""
        texts[package / f"model_{number}.py"] = after + 4 * LIBRARY["model"].format(number=number)
    fan = [0, *range(CHAIN + 1, count)]
    texts[package / "__init__.py"] = "".join(f"from .model_{each} import block_{each}\n" for each in fan)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    return [*texts.values()]


def of_many_files(folder: Path) -> Iterator[Figure]:
    """A program of 300 files, as those that train with a library of models."""
    place = folder / "whole"
    texts = [*write_package(place / "package"), program(300, IMPORTS)]
    (place / "train.py").write_text(texts[-1], "utf-8")
    assert len(texts) == FILES
    what = f"a program of {FILES} files against ast.parse of them"
    yield against_parsing(what, place / "train.py", texts, RUNS)


def from_the_shell(folder: Path) -> Iterator[Figure]:
    """One script as people write it, and one as nobody does, with the start of Python and all imports."""
    file = folder / "script.py"
    file.write_text(program(SHELL_LINES), "utf-8")
    runs = [run_process([LAUNCH, "lint", file], codes=(0, 1), folder=folder) for _ in range(2 * RUNS)]
    shortest = min(run.seconds for run in runs)
    yield Figure(f"{SHELL_LINES} lines, from the shell", shortest, SHELL_BOUND, " s")
    file.write_text(program(HUGE_LINES), "utf-8")
    run = run_process([LAUNCH, "lint", file, "--output", "json"], codes=(0, 1))
    yield Figure(f"{HUGE_LINES:,} lines, from the shell", run.processor, HUGE_BOUND, " s")
    yield Figure(f"{HUGE_LINES:,} lines, memory", run.megabytes, MEMORY_BOUND, " MB")


def large(folder: Path) -> Iterator[Figure]:
    """One long file."""
    file = folder / "large.py"
    file.write_text(program(LARGE_LINES), "utf-8")
    shortest = min(seconds_of(lambda: lint([file])) for _ in range(3))
    yield Figure(f"{LARGE_LINES:,} lines", shortest, LARGE_BOUND, " s")


def on_all_cores(folder: Path) -> Iterator[Figure]:
    """Many scripts with a helper in common."""
    place = folder / "many"
    place.mkdir()
    (place / "helper.py").write_text(program(300), "utf-8")
    text = program(100, "import helper\n")
    paths = [place / f"script_{number}.py" for number in range(SCRIPTS)]
    for path in paths:
        path.write_text(text, "utf-8")
    before, start = os.times(), time.perf_counter()
    found = lint(paths)
    wall, after = time.perf_counter() - start, os.times()
    assert found.programs == SCRIPTS
    own, started = (sum(after[at : at + 2]) - sum(before[at : at + 2]) for at in (0, 2))
    beside = f"{wall:.1f} s on {os.cpu_count()} cores, {own + started:.1f} s of their time"
    bound = None if os.cpu_count() == 1 else OWN_BOUND
    share = own / (own + started)
    yield Figure(f"{SCRIPTS:,} scripts, the share of the process that was started", share, bound, "", beside)


def over_one_package(folder: Path) -> Iterator[Figure]:
    """A folder of programs that all import one large package: a tenth of them, times ten.

    So the reading of the package, once in each process, counts ten times: the whole folder takes less.
    """
    place = folder / "over"
    write_package(place / "package")
    text = program(100, IMPORTS)
    paths = [place / f"script_{number}.py" for number in range(PROGRAMS // 10)]
    for path in paths:
        path.write_text(text, "utf-8")
    seconds = 10 * seconds_of(lambda: lint(paths))
    yield Figure(f"{PROGRAMS} programs over a package of {FILES - 1} files", seconds, PROGRAMS_BOUND, " s")


def figures(folder: Path) -> Iterator[Figure]:
    """All of them."""
    for each in (of_few_files, of_many_files, large, from_the_shell, on_all_cores, over_one_package):
        yield from each(folder)
