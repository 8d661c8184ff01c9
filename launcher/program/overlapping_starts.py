"""Groups of ranks that a program starts on one host while others run there, or that a launcher starts too."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from launcher.program.bindings import branch_arms
from launcher.program.dataflow import argument_of, constant_argument, origins
from launcher.program.index import (
    COMPREHENSIONS,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.process_environment import (
    RANK_LAUNCHERS,
    rank_starts,
    started_function,
    started_processes,
    ways_to,
)
from launcher.program.program import Program, joining_calls
from launcher.program.surroundings.commands import torchrun_commands
from launcher.program.values import DDP, FSDP, Constant, External, RankValue, elements_of


def overlaps(program: Program, call: ast.Call, others: Collection[ast.Call], depth: int = 3) -> bool:
    """Whether what a call starts runs while the same is started again, by it or by one of the others.

    In a loop, or one behind the other, and nothing waits for the first before the next begins; also where the
    function in which the call stands is called so.
    """
    if isinstance(parent_of(call), ast.withitem):  # It waits at its end.
        return False
    named = (file_of(call).calls_of.get(name, ()) for name in ("join", "wait", "communicate", "poll"))
    waiting = (each for some in named for each in some if last_name(each.func) != "join" or not each.args)
    function, arms = scope_of(call).function, dict(branch_arms(call))
    waits = [each.lineno for each in waiting if scope_of(each).function is function]
    beside = (each for each in others if scope_of(each) is scope_of(call) and each.lineno < call.lineno)
    before = [
        each.lineno
        for each in beside
        if all(arms.get(choice, arm) == arm for choice, arm in branch_arms(each))
    ]
    if before and not any(before[-1] < line < call.lineno for line in waits):
        return True
    kinds = (ast.For, *COMPREHENSIONS)
    loop: Any = next((each for each in ancestors_in_function(call) if isinstance(each, kinds)), None)
    if loop is not None:
        over = (getattr(loop, "generators", None) or [loop])[0].iter
        listed = elements_of(program.value(over), program.value, over)
        within = any(loop.lineno <= line <= (loop.end_lineno or 0) for line in waits)
        return not within and (listed is None or len(listed) > 1)
    node = None if function is None or waits or not depth else function.node
    if not isinstance(node, FunctionNode):
        return False
    sites = [each.call for each in program.evaluation.callers.call_sites(node) or ()]
    return any(overlaps(program, each, sites, depth - 1) for each in sites)


def starts_side_by_side(program: Program) -> Iterator[ast.Call]:
    """The calls that start groups of ranks while others run: in a loop, or one behind the other, and nothing
    waits for the first before the next begins."""
    spawned = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
    starts = [
        call
        for call, _ in program.calls(*spawned)
        if constant_argument(program, argument_of(call, "join", 3)) == Constant(False)
    ]
    yield from (call for call in starts if overlaps(program, call, starts))


def runs_groups_side_by_side(program: Program) -> bool:
    """Whether groups of ranks, or torchruns, run at the same time on one host."""
    torchruns = [call for call, _ in torchrun_commands(program) if _goes_on(program, call)]
    overlapping = (overlaps(program, each, torchruns) for each in torchruns)
    return any(overlapping) or any(True for _ in starts_side_by_side(program))


def _goes_on(program: Program, start: ast.Call) -> bool:
    return program.qualified(start.func) == "subprocess.Popen"


_HERE = re.compile(r"(.*/)?torchrun|.*python[\d.]*|sys\.executable")
"""The first word of a command that runs on this host."""


def torchruns_on_one_port(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """The ports, as words of commands, that several torchruns of this host are given while they run."""
    found = list[tuple[ast.Call, ast.expr, str]]()
    for call, words in torchrun_commands(program):
        texts = [str(getattr(program.value(each), "value", "?")).replace("-", "_") for each in words]
        first = program.qualified(words[0]) or texts[0]
        met = any(each.startswith(("__rdzv", "__standalone")) for each in texts)  # Elsewhere than there.
        if met or not _HERE.fullmatch(first) or not _goes_on(program, call):
            continue
        for word, node, behind in zip(texts, words, [*texts[1:], ""], strict=True):
            port = behind if word == "__master_port" else word.removeprefix("__master_port=")
            if port.strip("0").isdecimal() and (port is behind or port != word):
                found.append((call, node, port))
    for call, node, port in found:
        others = [other for other, _, taken in found if taken == port]
        if overlaps(program, call, others):
            yield node, port


def ranks_are_started_only_here(
    program: Program, start: ast.Call, is_reached: Callable[[ast.AST], bool]
) -> bool:
    """Whether no processes have a group, or wrap a model without one, but those started here, once more in
    each of a launcher: what is called besides where their number is one, as `train(0)`, knows no launcher."""
    if program.qualified(start.func) in RANK_LAUNCHERS:
        return True
    target = started_function(program, start)
    joining = [*joining_calls(program)]
    groups = [group for group, _ in joining or program.calls(DDP, FSDP) if is_reached(group)]
    if target is None or not groups:
        return False
    targets = {each for one in rank_starts(program) if (each := started_function(program, one)) is not None}
    within = all(ways_to(program, group, targets) == {True} for group in groups)
    sites = program.evaluation.callers.call_sites(target)
    own = [each.call for each in sites or () if started_function(program, each.call) is not target]
    counts = [ast.unparse(given) for call, given in started_processes(program) if call is start]
    around = [each.test for each in ancestors(start) if isinstance(each, ast.If)]
    tests = [ast.unparse(made) for each in around for made in (each, *origins(program, each)) if made]
    by_number = any(count in test for count in counts for test in tests)
    told = all(argument_of(each, "rank", 4) and argument_of(each, "world_size", 3) for each in groups)
    alone = all(
        each.args
        and (isinstance(each.args[0], ast.Constant) or (told and not _is_rank(program, each.args[0])))
        for each in own
    )
    return within and sites is not None and (not own or (by_number and alone))


def _is_rank(program: Program, node: ast.expr) -> bool:
    """Whether a launcher may have given this number to the process."""
    parts = [each for made in origins(program, node) for each in ast.walk(node if made is None else made)]
    values = [program.value(each) for each in parts if isinstance(each, ast.expr)]
    return any(
        value == External("os.environ") or (isinstance(value, RankValue) and value.source != "spawn")
        for value in values
    )
