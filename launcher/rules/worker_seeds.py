"""The seeds that a program gives torch, and whether they are the same on every worker."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.program.dataflow import all_arguments, origins
from launcher.program.index import ancestors
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.values import Defined, RankValue

_DRAWN_ANEW = (
    "time.",
    "os.urandom",
    "os.getpid",
    "uuid.",
    "secrets.",
    "random.SystemRandom",
    "datetime.datetime.now",
)
"""What gives every process another number."""


def seeds_of_torch(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls that seed torch in what the program runs, each with what it gives."""
    reachability = program.analysis(Reachability)
    for file in program.files:
        for last, calls in file.calls_of.items():
            if "seed" not in last.lower() and last != "set_rng_state":
                continue
            for call in calls:
                named = program.qualified(call.func) or ""
                other = named.startswith(_OTHER_SEEDS) or isinstance(program.value(call.func), Defined)
                runs = reachability.reaches(call) and not reachability.is_named_nowhere(call)
                if not other and all_arguments(call) and runs:
                    yield call, all_arguments(call)[0]
    yield from ((call, call.args[0]) for call, _ in seeds_that_are_listed(program))


def seeds_that_are_listed(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of several functions one after the other, `for seed in (random.seed, torch.manual_seed):
    seed(7)`, with what seeds torch among them."""
    for file in program.files:
        for use in file.attributes.get("manual_seed", ()):
            loop = next((each for each in ancestors(use) if isinstance(each, ast.For)), None)
            if loop is None or loop.iter not in ancestors(use) or program.qualified(use) != _SEED:
                continue
            called = getattr(loop.target, "id", None)
            for call in file.calls_of.get(called, ()) if called else ():
                if loop in ancestors(call) and call.args:
                    yield call, use


_SEED = "torch.manual_seed"

_OTHER_SEEDS = ("random.", "numpy.", "torch.Generator.", "torch.cuda.", "tensorflow.")
"""Where what is called a seed is none of torch's weights."""


def is_each_workers_own(program: Program, seed: ast.expr) -> bool:
    """Whether a seed surely is another number in every worker, wherever it comes from."""
    sources = origins(program, seed)
    if len(sources) == 1 and isinstance(program.value(seed), RankValue):
        return True
    for made in sources:
        if made is None or isinstance(made, ast.BoolOp):
            return False
        if isinstance(program.value(made), RankValue):
            continue
        calls = [program.qualified(each.func) or "" for each in walk(made) if isinstance(each, ast.Call)]
        agreed = any(each.startswith("torch_xla.") and "reduce" in each for each in calls)
        if agreed or not any(each.startswith(_DRAWN_ANEW) for each in calls):
            return False
    return True
