"""What the campaigns share: jobs as a file has them, those that are asked for, and what came of them."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tools.attack.real_ranks.local_hosts import keep_copy


@dataclass(slots=True)
class Tally:
    """What was done to trainings that were interrupted, and what came of it."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def tell_kills(attack: Callable[[int, int, Path, int], Tally], *, kills: int, steps: int) -> int:
    """Run an attack of so many kills of trainings of so many steps; 1 where anything went wrong."""
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option, default in (("--kills", kills), ("--seed", 1), ("--steps", steps)):
        parser.add_argument(option, type=int, default=default)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        tally = attack(options.kills, options.seed, Path(folder), options.steps)
    lines = [*(f"{n} {what}" for what, n in sorted(tally.counts.items()))]
    lines += [f"WRONG: {one}" for one in tally.wrong]
    print(*lines, f"{len(tally.wrong)} wrong, {time.monotonic() - began:.0f} s", sep="\n")
    return 1 if tally.wrong else 0


class Named(Protocol):
    """A case of any campaign."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""


Case = TypeVar("Case", bound=Named)


@dataclass(frozen=True)
class Judged:
    """What came of one job: `wrong` is empty where all is as it should be, `said` is what it told of that."""

    case: str
    wrong: str = ""
    said: tuple[str, ...] = ()
    seconds: float | None = None


def read_jobs(module: str) -> dict[str, Any]:
    """The file of a campaign, beside its module: its `script` and its `cases`."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))


def filled(script: str, **parts: str) -> str:
    """The script with each {name} filled in; a line that is one alone keeps its indent."""
    for name, text in parts.items():
        place = re.compile(rf"^( *)\{{{name}\}}$|\{{{name}\}}", re.MULTILINE)
        script = place.sub(lambda found, text=text: textwrap.indent(text, found[1] or ""), script)
    return script


def parser_of(module: str, *, times: int = 1, kept: Path | None = None) -> argparse.ArgumentParser:
    """The options that every campaign has."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.attack.real_ranks.{Path(module).stem}")
    parser.add_argument("cases", nargs="*", help="the names of cases, or their beginnings; all without")
    parser.add_argument("--times", type=int, default=times)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=kept, help="where to keep what the jobs leave")
    return parser


def chosen(cases: Sequence[Case], options: argparse.Namespace) -> list[Case]:
    """The cases that are asked for."""
    return [case for case in cases if case.name.startswith(tuple(options.cases) or "")]


def once(options: argparse.Namespace) -> argparse.Namespace:
    """The same, but each case only once."""
    return argparse.Namespace(**{**vars(options), "times": 1})


def run_all(
    run: Callable[[Case, Path], Judged], cases: Sequence[Case], options: argparse.Namespace, *, keeps: bool
) -> Iterator[Judged]:
    """Every case as often as asked for; what went wrong is kept, or with `keeps` all."""

    def one(number: int) -> Judged:
        case = cases[number % len(cases)]
        with tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True) as name:
            judged = run(case, Path(name))
            if options.kept is not None and (keeps or judged.wrong):
                keep_copy(Path(name), options.kept / f"{case.name}-{number // len(cases)}")
        return judged

    with ThreadPoolExecutor(options.at_once) as pool:
        yield from pool.map(one, range(options.times * len(cases)))


def told(results: Iterable[Judged]) -> int:
    """Print each job as it ends, then how many of each case were right; 1 where one was not."""
    every: dict[str, list[Judged]] = {}
    for each in results:
        every.setdefault(each.case, []).append(each)
        took = "" if each.seconds is None else f", {each.seconds:.1f} s"
        print(f"{each.case}: {each.wrong or 'right'}{took}", *each.said, sep="\n  ", flush=True)
    for case, jobs in every.items():
        times = [each.seconds for each in jobs if each.seconds is not None]
        longest = f", at most {max(times):.1f} s" if times else ""
        print(f"{case}: {sum(not each.wrong for each in jobs)} of {len(jobs)} right{longest}")
    wrong = sum(bool(each.wrong) for jobs in every.values() for each in jobs)
    print(f"{wrong} of {sum(map(len, every.values()))} wrong")
    return int(wrong > 0)
