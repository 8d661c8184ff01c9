"""The processes that a program starts itself: which are ranks, how many, and which run side by side."""

from __future__ import annotations

import ast
import re
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Sequence,
    Set,
)
from typing import Any

from launcher.program.bindings import branch_arms
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    given_argument,
    origins,
    text_beginning,
    text_parts,
)
from launcher.program.index import (
    COMPREHENSIONS,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    dotted_name,
    file_of,
    last_name,
    parameters_of,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import changed_variables
from launcher.program.program import Program, joining_calls
from launcher.program.surroundings.commands import (
    processes_told,
    torchrun_commands,
)
from launcher.program.values import (
    DDP,
    FSDP,
    HOST_SIZES,
    LIBRARY_TABLES,
    Constant,
    Defined,
    External,
    RankValue,
    Several,
    WorldSize,
    elements_of,
    library_names,
)

_TOOL_PROGRAMS = ("java", "git", "ffmpeg", "ffprobe", "nvidia-smi", "perl", "tar", "wget", "curl", "aws")
"""Programs that are no rank and start none."""


def process_starts(program: Program) -> list[ast.Call]:
    """The calls by which a program starts processes itself that may be ranks, on the host where it runs."""
    found = [
        call
        for call, name in program.calls(*library_names("process_starters"))
        if name != "subprocess.Popen" or not _runs_another_program(program, call)
    ]
    contexts = (
        call
        for file in program.files
        for name in ("Process", "spawn")
        for call in file.calls_of.get(name, ())
        if any(each.arg in ("target", "nprocs") for each in call.keywords)
    )
    started = [*found, *(call for call in contexts if call not in found)]
    groups = [call for call, _ in joining_calls(program)] if started else []
    return [call for call in started if not _starts_other_work(program, call, groups)]


def _starts_other_work(program: Program, start: ast.Call, groups: Sequence[ast.Call]) -> bool:
    """Whether what a process runs surely joins none of the program's groups, as one for an environment."""
    target = started_function(program, start)
    if target is None or not groups or program.qualified(start.func) in _RANK_STARTERS:
        return False
    handed = {each.arg for each in parameters_of(target)}
    if any(isinstance(each, ast.Call) and dotted_name(each.func) in handed for each in walk(target)):
        return False  # What it is handed may join one.
    return not _joins_one_of(program, target, groups)


def _joins_one_of(program: Program, function: ast.FunctionDef, groups: Sequence[ast.Call]) -> bool:
    """Whether the program may come to the call that makes a group by way of a function."""
    return any(True in ways_to(program, group, {function}) for group in groups)


def _runs_another_program(program: Program, call: ast.Call) -> bool:
    """Whether a command surely is none that could be a rank or start one: `["java", "-jar", ...]`."""
    given = argument_of(call, "args", 0)
    value = None if given is None else program.value(given)
    if isinstance(value, Several) and value.node.elts:
        value = program.value(value.node.elts[0])
    words = str(value.value).split() if isinstance(value, Constant) else []
    return bool(words) and words[0].rpartition("/")[2] in _TOOL_PROGRAMS


RANK_LAUNCHERS = library_names("rank_launchers")
_RANK_STARTERS = library_names("rank_starters")


def rank_starts(program: Program) -> Iterator[ast.Call]:
    """The calls by which a program starts processes that are ranks: that make a group."""
    spawned = [call for call, _ in program.calls(*_RANK_STARTERS, *RANK_LAUNCHERS)]
    yield from spawned
    groups = [call for call, _ in joining_calls(program)]
    for call in process_starts(program):
        target = started_function(program, call)
        if target is not None and call not in spawned and _joins_one_of(program, target, groups):
            yield call


def started_function(program: Program, start: ast.Call) -> ast.FunctionDef | None:
    """The program's function that the processes run which a call starts."""
    named = (("fn", 0), ("target", 1), ("entrypoint", 1))
    given = (argument_of(start, name, place) for name, place in named)
    values = (program.value(each) for each in given if each is not None)
    found = (each.node for each in values if isinstance(each, Defined))
    return next((each for each in found if isinstance(each, ast.FunctionDef)), None)


def ways_to(program: Program, node: ast.AST, targets: Set[object], depth: int = 5) -> set[bool]:
    """Whether the ways by which the program comes to a statement lead through functions, each of them."""
    if not targets.isdisjoint(ancestors(node)):
        return {True}
    scope = scope_of(node).function
    function = None if scope is None else scope.node
    sites = program.evaluation.callers.call_sites(function) if isinstance(function, FunctionNode) else None
    ways = [ways_to(program, site.call, targets, depth - 1) for site in sites or ()] if depth else []
    return set[bool]().union(*ways) or {False}


Valued = Callable[[ast.expr], Constant | None]
"""What somebody who knows the run knows of a number."""

_COUNTED = {
    **dict.fromkeys(_RANK_STARTERS, ("nprocs", 2)),
    "torch.distributed.launcher.api.LaunchConfig": ("nproc_per_node", 2),
    "torch.distributed.launcher.LaunchConfig": ("nproc_per_node", 2),
    "accelerate.notebook_launcher": ("num_processes", 2),
    "ignite.distributed.Parallel": ("nproc_per_node", 1),
    "ignite.distributed.spawn": ("nproc_per_node", 4),
}
"""What starts ranks on a host, or configures their start, and what tells how many: its name and place."""


def started_processes(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls by which a program starts its ranks on a host, and how many."""
    for call, name in program.calls(*_COUNTED):
        keyword, place = _COUNTED[name]
        given = argument_of(call, keyword, place) or given_argument(program, call, keyword)
        if given is not None and program.value(given) != Constant(None):
            yield call, given
    for call in rank_starts(program):
        loop = next((each for each in ancestors(call) if isinstance(each, ast.For | ast.ListComp)), None)
        counted = loop.generators[0].iter if isinstance(loop, ast.ListComp) else getattr(loop, "iter", None)
        if (
            isinstance(counted, ast.Call)
            and program.qualified(counted.func) == "range"
            and len(counted.args) == 1
        ):
            yield call, counted.args[0]
    for call, words in torchrun_commands(program):
        yield from ((call, told) for told in processes_told(program, words))


def count_on_host(program: Program, node: ast.expr, gpus: int, known: Valued, deep: int = 12) -> int | None:
    """How many an expression is on a host with so many GPUs."""
    made = origins(program, node)
    only = made[0] if len(made) == 1 and made[0] is not None else node
    if deep and isinstance(only, ast.BinOp) and isinstance(only.op, ast.Mult | ast.FloorDiv):
        one, other = (count_on_host(program, each, gpus, known, deep - 1) for each in (only.left, only.right))
        if one is None or not other:
            return None
        return one * other if isinstance(only.op, ast.Mult) else one // other
    name = program.qualified(only.func) if isinstance(only, ast.Call) else None
    arguments = only.args if isinstance(only, ast.Call) else []
    if deep and name in ("min", "max", "int", "str") and arguments:
        counts = [count_on_host(program, each, gpus, known, deep - 1) for each in arguments]
        found = [each for each in counts if each is not None]
        return (max(found) if name == "max" else min(found)) if found == counts else None
    value = program.value(
        only.args[0] if isinstance(only, ast.Call) and name == "len" and arguments else only
    )
    if isinstance(value, Several) and (name == "len" or isinstance(only, ast.List)):
        return len(value.node.elts)
    if isinstance(value, WorldSize) and isinstance(only, ast.Call | ast.Subscript):
        return gpus if value.source in HOST_SIZES else None
    constant = known(only)
    text = "" if constant is None or isinstance(constant.value, bool) else str(constant.value)
    return int(text) if text.isdecimal() else None


def port_behind(program: Program, address: ast.expr) -> str | None:
    """The number behind an address that only the run knows: `f"tcp://{host}:{PORT}"`."""
    begun = text_beginning(program, address)
    parts, _ = text_parts(program, address)
    if begun is None or begun[1] or not begun[0].startswith("tcp://") or not parts:
        return None
    last = parts[-1]
    while inner := text_parts(program, last)[0]:
        last = inner[-1]
    found = re.search(r"(?:^|:)(\d+)$", str(getattr(program.value(last), "value", "")))
    return None if found is None else found[1]


def port_in(program: Program, address: ast.expr | None) -> str | None:
    """The port of an address that is written: `tcp://127.0.0.1:29500`, or what the program fixes for it."""
    if address is None or program.value(address) == Constant("env://"):
        ports = [each for each in changed_variables(program) if each.name == "MASTER_PORT"]
        values = [program.value(each.value) for each in ports]
        fixed = {str(each.value) for each in values if isinstance(each, Constant)}
        return fixed.pop() if len(fixed) == 1 and len(values) == 1 else None
    found = re.search(r":(\d+)$", str(getattr(program.value(address), "value", "")))
    return None if found is None else found[1]


def starts_ranks(program: Program) -> bool:
    """Whether a program starts processes for the GPUs of its host, itself or by a torchrun."""
    others = library_names("process_starters") - {"multiprocessing.Process", "subprocess.Popen"}
    others |= {"lightning.pytorch.Trainer", "lightning.pytorch.Trainer.from_argparse_args"}
    others |= {"lightning.pytorch.cli.LightningCLI", "lightning.fabric.Fabric"}
    found = (program.calls(*others), torchrun_commands(program), rank_starts(program))
    return any(True for each in (*found, _scripts_in_a_loop(program)) for _ in each)


def _scripts_in_a_loop(program: Program) -> Iterator[ast.Call]:
    """The calls that start one Python script after another and wait for none, as for each GPU:
    `Popen([sys.executable, "train.py", f"--rank={rank}"])`."""
    for call, _ in program.calls("subprocess.Popen"):
        if "sys.executable" in ast.unparse(call) and overlaps(program, call, ()):
            yield call


def is_for_one_host(program: Program) -> bool:
    """Whether a program can only run on one host: it, or torch's harness for tests, starts its processes."""
    harness = any(
        (each.module or "").startswith("torch.testing._internal")
        for file in program.files
        for each in file.imports
    )
    return harness or bool(process_starts(program))


def has_another_launcher(program: Program) -> bool:
    """Whether something else than torchrun may start it, after which it must set the addresses itself."""
    for file in program.files:
        if any(
            (each.module or "").lstrip(".").partition(".")[0] in LIBRARY_TABLES["launcher_imports"]
            for each in file.imports
        ):
            return True
        if any(prefix in file.text for prefix in LIBRARY_TABLES["launcher_variables"]):
            return True
    return False


# Groups of ranks that are started on one host while others run there, or that a launcher starts too.


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
    parts = [each for made in origins(program, node) for each in walk(node if made is None else made)]
    values = [program.value(each) for each in parts if isinstance(each, ast.expr)]
    return any(
        value == External("os.environ") or (isinstance(value, RankValue) and value.source != "spawn")
        for value in values
    )
