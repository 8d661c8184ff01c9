"""How long `launch lint` takes, against the bare parsing of the same files and against importing nothing.

Bounds: a program at most five times `ast.parse` of the files that it is made of, be they three long ones or
300, of which some import one another in a chain, most are models that nothing distributed stands in, and all
use one helper; a file of 10,000 lines under a second, one of 50,000 under 10 s (of the processor's time, as
this is long) and 1 GB; `launch lint` of one script of 300 lines, from the shell, under 0.3 s; and of the work
on 1,000 scripts the starting process does at most a fifth, where there are several cores (the rest is shared
equally by as many processes, so that this holds on a busy machine as well). The programs are made of the
examples' own training functions under other names. Times are the shortest of several runs, as what else runs
on the machine only adds to them; two that are compared are of the processor's time.
"""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from launcher.session.lint_scripts import lint

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
PARSING_BOUND = 5.0
LARGE_LINES, LARGE_BOUND = 10_000, 1.0
HUGE_LINES, HUGE_BOUND, MEMORY_BOUND = 50_000, 10.0, 1000.0
FILES, CHAIN = 300, 20
SHELL_LINES, SHELL_BOUND = 300, 0.3
SCRIPTS, OWN_BOUND = 1_000, 0.2

LAUNCH = str(Path(sys.executable).with_name("launch"))
PARTS = ("ddp", "fsdp", "accelerate", "lightning")


def program(lines: int, start: str = "") -> str:
    """A script of so many lines: the examples again and again, each time with names of its own."""
    texts = [(ROOT / "examples" / part / "src" / "train.py").read_text("utf-8") for part in PARTS]
    written: list[str] = [start]
    number = 0
    while sum(text.count("\n") for text in written) < lines:
        text = texts[number % len(texts)].replace("from __future__ import annotations\n", "")
        written.append(text.replace("def main(", f"def main_{number}(").replace("main()", f"main_{number}()"))
        number += 1
    return "".join(written)


def shortest(
    action: Callable[[], object], runs: int = RUNS, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(runs):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def ratio(one: Callable[[], object], other: Callable[[], object], runs: int) -> float:
    """How many times as much of the processor's time one action takes as another: the shortest of each.

    One after the other, with nothing left behind: neither pays for what the other has used.
    """
    first = shortest(one, runs, time.process_time)
    gc.collect()
    return first / shortest(other, runs, time.process_time)


def told(what: str, seen: float, bound: float, unit: str) -> bool:
    """Print one figure with its bound; whether it is within it."""
    print(f"{what}: {seen:.2f}{unit} (bound {bound}{unit})")
    return seen <= bound


def against_parsing(folder: Path) -> bool:
    """A program of three files against the parsing of their texts."""
    helpers = {f"part_{number}.py": program(400) for number in range(2)}
    for name, text in helpers.items():
        (folder / name).write_text(text, "utf-8")
    entry = folder / "whole.py"
    entry.write_text(program(400, "import part_0\nimport part_1\n"), "utf-8")
    texts = [*helpers.values(), entry.read_text("utf-8")]
    assert lint([entry]).files == len(texts)
    seen = ratio(lambda: lint([entry]), lambda: [ast.parse(text) for text in texts], 4 * RUNS)
    return told("a program against ast.parse of its files", seen, PARSING_BOUND, "")


MODEL = """
import torch
from torch import nn
from package.shared import scaled


class Block{number}(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, values, mask=None):
        for layer in self.layers:
            if mask is not None:
                values = values.masked_fill(mask, 0.0)
            values = scaled(layer(values), self.width)
        return values


def block_{number}(width=64, **options):
    model = Block{number}(width, options.get("depth", 2))
    model.load_state_dict(torch.load(f"block-{{width}}.pt", map_location="cpu"))
    return model
"""
SHARED = """
import torch.distributed as dist


def scaled(values, width):
    return values / width ** 0.5


def mean(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()
"""


def of_many_files(folder: Path) -> bool:
    """A program of 300 files, as those that train with a library of models."""
    place = folder / "whole"
    package = place / "package"
    package.mkdir(parents=True)
    count = FILES - 3
    texts = {package / "shared.py": SHARED}
    for number in range(count):
        after = f"from package.model_{number + 1} import block_{number + 1}\n" if number < CHAIN else ""
        texts[package / f"model_{number}.py"] = after + 4 * MODEL.format(number=number)
    fan = [0, *range(CHAIN + 1, count)]
    texts[package / "__init__.py"] = "".join(f"from .model_{each} import block_{each}\n" for each in fan)
    texts[place / "train.py"] = program(300, "from package import block_0\nfrom package.shared import mean\n")
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    entry = place / "train.py"
    assert lint([entry]).files == FILES
    seen = ratio(lambda: lint([entry]), lambda: [ast.parse(text) for text in texts.values()], RUNS)
    return told(f"a program of {FILES} files against ast.parse of them", seen, PARSING_BOUND, "")


def huge(folder: Path) -> bool:
    """One file as nobody writes it, from the shell: how long, and in how much memory."""
    file = folder / "huge.py"
    file.write_text(program(HUGE_LINES), "utf-8")
    child = os.posix_spawn(
        LAUNCH,
        [LAUNCH, "lint", str(file), "--output", "json"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
    )
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    quick = told(f"{HUGE_LINES:,} lines, from the shell", used.ru_utime + used.ru_stime, HUGE_BOUND, " s")
    unit = 1_000_000 if sys.platform == "darwin" else 1_000
    return told(f"{HUGE_LINES:,} lines, memory", used.ru_maxrss / unit, MEMORY_BOUND, " MB") and quick


def large(folder: Path) -> bool:
    """One long file."""
    file = folder / "large.py"
    file.write_text(program(LARGE_LINES), "utf-8")
    return told(f"{LARGE_LINES:,} lines", shortest(lambda: lint([file]), 3), LARGE_BOUND, " s")


def from_the_shell(folder: Path) -> bool:
    """One script, with the start of Python and all imports."""
    file = folder / "script.py"
    file.write_text(program(SHELL_LINES), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        ended = subprocess.run([LAUNCH, "lint", str(file)], capture_output=True, env=environment, cwd=folder)
        assert ended.returncode in (0, 1), ended.stderr

    return told(f"{SHELL_LINES} lines, from the shell", shortest(run, 2 * RUNS), SHELL_BOUND, " s")


def on_all_cores(folder: Path) -> bool:
    """Many scripts with a helper in common."""
    place = folder / "many"
    place.mkdir()
    (place / "helper.py").write_text(program(300), "utf-8")
    text = program(100, "import helper\n")
    paths = [place / f"script_{number}.py" for number in range(SCRIPTS)]
    for path in paths:
        path.write_text(text, "utf-8")
    cores = os.cpu_count() or 1
    before, start = _cpu(), time.perf_counter()
    found = lint(paths)
    wall, after = time.perf_counter() - start, _cpu()
    assert found.programs == SCRIPTS
    own, others = (now - then for now, then in zip(after, before, strict=True))
    print(f"{SCRIPTS:,} scripts on {cores} cores: {wall:.1f} s, {own + others:.1f} s of their time")
    if cores == 1:
        return True
    return told("of that the process that was started itself", own / (own + others), OWN_BOUND, "")


def _cpu() -> tuple[float, float]:
    """The time of processors that this process has taken, and that of the processes that it has started."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def main() -> int:
    """Measure, print the figures, exit with 1 where one is over its bound."""
    with tempfile.TemporaryDirectory(prefix="slipway-benchmark-") as name:
        within = [
            each(Path(name))
            for each in (against_parsing, of_many_files, large, huge, from_the_shell, on_all_cores)
        ]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
