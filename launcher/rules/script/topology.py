"""Who the ranks are and where they meet: written into the script instead of asked of the launcher."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import distribution, nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.scripts.arguments import argument, constant, is_open
from launcher.scripts.certainty import runs_with, surely_runs
from launcher.scripts.changed_variables import ChangedVariable, changed_variables
from launcher.scripts.launching import has_another_launcher, is_for_one_host
from launcher.scripts.names import canonical
from launcher.scripts.program import Program
from launcher.scripts.scopes import FunctionNode, file_of, scope_of
from launcher.scripts.values import Constant, RankKind, RankValue, WorldSize

GROUP = "torch.distributed.init_process_group"
SAMPLER = "torch.utils.data.DistributedSampler"
_STARTS = (GROUP, "deepspeed.init_distributed", "deepspeed.comm.init_distributed")

_LOOPBACK = re.compile(r"localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|0\.0\.0\.0")
_ADDRESS = re.compile(r"(?:tcp|env)://(\[[0-9a-fA-F:]{2,45}\]|[\w.-]{1,253})(?::(\d{1,5}))?(?:[/?].{0,200})?")
_SPAWNED_HERE = "as the program starts its processes itself, it can only run on one host"


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def address_is_the_launchers(program: Program) -> Iterator[Finding]:
    """MASTER_ADDR or the address of `init_method` written into the script.

    With `localhost` every host waits for itself alone; a fixed address is another machine's tomorrow. Under
    torchrun not even one host starts where the port differs too: its agent holds the store, and no rank
    would open another.

    Silent where a value of the launcher stays, where a later line of the function may replace the address,
    for one process alone, and where nobody can tell whether the line runs. A program that spawns its
    processes itself can run on one host only: there it is informational.

    Bad: `os.environ["MASTER_ADDR"] = "localhost"`. Good: no such line, or
    `os.environ.setdefault("MASTER_ADDR", "localhost")` for a start without launcher.

    Source: the sources of DIST006; torch/distributed/rendezvous.py.
    """
    if not _makes_a_group(program):
        return
    for change in _overwritten(program, "MASTER_ADDR"):
        address = constant(program, change.value)
        if _is_replaced(program, change):
            continue
        if address is None or not isinstance(address.value, str):
            continue
        yield _address(program, change.node, f"MASTER_ADDR is fixed to {address.value!r}", address.value)
    for call, _ in program.calls(GROUP):
        method = constant(program, argument(call, "init_method", 1))
        matched = None if method is None else _ADDRESS.fullmatch(str(method.value))
        if matched is not None and matched[0].startswith("tcp") and _is_for_several(program, call):
            given = argument(call, "init_method", 1)
            assert given is not None
            yield _address(program, given, f"the ranks meet at {matched[0]}", matched[1])


@finds(Stage.SCRIPT, nccl.PORT_IN_USE)
def port_is_the_launchers(program: Program) -> Iterator[Finding]:
    """MASTER_PORT written into the script.

    torchrun's agent listens on the port that it has set, and tells the ranks not to open another: with a
    port of the script's own they all wait for one that nobody holds, until the time-out. Without torchrun a
    fixed port is taken as soon as two jobs share a machine.

    Silent where a value of the launcher stays, for one process alone, and in programs that know SLURM or MPI,
    whose launchers set no port. Where the program spawns its processes itself it is informational.

    Bad: `os.environ["MASTER_PORT"] = "12355"`. Good: no such line, or `setdefault`.

    Source: torch/distributed/rendezvous.py (`_torchelastic_use_agent_store`); the sources of NCCL009.
    """
    if not _makes_a_group(program) or has_another_launcher(program):
        return
    for change in _overwritten(program, "MASTER_PORT"):
        port = constant(program, change.value)
        if port is None or port.value in (None, "", "0", 0):
            continue
        if is_for_one_host(program):
            harm, severity = "a second run on this machine finds it taken", Severity.INFO
        else:
            harm, severity = "torchrun listens on its own, and the ranks wait for one that nobody opens", None
        message = f"MASTER_PORT is fixed to {port.value}: {harm}"
        yield found(nccl.PORT_IN_USE, change.node, message, severity=severity)


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def world_size_is_the_launchers(program: Program) -> Iterator[Finding]:
    """A number of processes that is written into the script, or taken from the GPUs of one host.

    With more processes than that, some are ranks that do not exist; with fewer, the start waits for those
    that never come.

    Silent for one process, and in a program that spawns its processes itself. Of several calls that make the
    group, one under a test counts only where its ranks come from the launcher's variables, and as a warning.

    Bad: `init_process_group("nccl", world_size=8, rank=rank)`, `world_size=torch.cuda.device_count()`. Good:
    `init_process_group("nccl")`, which reads WORLD_SIZE.

    Source: the sources of DIST006.
    """
    if is_for_one_host(program) or not _makes_a_group(program):
        return
    # The only call that makes the group is every run's of several processes, whatever stands around it.
    only = len(list(program.calls(GROUP))) == 1
    for call, name in program.calls(GROUP, SAMPLER):
        keyword, position = ("world_size", 3) if name == GROUP else ("num_replicas", 1)
        given = argument(call, keyword, position)
        value = None if given is None else program.value(given)
        if given is None:
            continue
        called = name == GROUP and _is_called(program, call)
        severity = None
        if not ((only and called) or surely_runs(program, call)):
            if not called or not _asks_the_launcher(program, call):
                continue
            severity = Severity.WARNING
        if isinstance(value, Constant) and type(value.value) is int and value.value > 1:
            yield _world_size(given, f"{keyword} is fixed to {value.value}", severity)
        elif value == WorldSize("torch.cuda.device_count"):
            yield _world_size(given, f"{keyword} is the number of GPUs of one host", severity)
    for change in _overwritten(program, "WORLD_SIZE"):
        size = constant(program, change.value)
        if size is not None and str(size.value).isdigit() and int(str(size.value)) > 1:
            yield _world_size(change.node, f"WORLD_SIZE is fixed to {size.value}")


@finds(Stage.SCRIPT, distribution.LOCAL_RANK_AS_RANK)
def rank_is_the_global_one(program: Program) -> Iterator[Finding]:
    """LOCAL_RANK where the rank among all processes is wanted.

    Right on one host, and on two each rank is claimed twice: the start hangs. In a DistributedSampler it is
    DATA003.

    Silent about the number that a spawned function is given, which is the rank where one host is all, and
    about RANK where Lightning makes the group, which asks the launcher itself. Informational in a program
    that starts its processes itself, and so on one host.

    Bad: `init_process_group("nccl", rank=int(os.environ["LOCAL_RANK"]))`. Good: `init_process_group("nccl")`.

    Source: the sources of DIST007.
    """
    severity = Severity.INFO if is_for_one_host(program) else None
    groups = [call for call, _ in program.calls(GROUP)]
    for call in groups:
        given = argument(call, "rank", 4)
        if given is not None and _is_local(program.value(given)):
            yield found(
                distribution.LOCAL_RANK_AS_RANK,
                given,
                f"{file_of(given).source(given)}, the rank on the host, is given to init_process_group as "
                "the rank: several hosts claim the same ranks, and the start hangs",
                severity=severity,
            )
    if not groups and any(_is_lightning(each.module) for file in program.files for each in file.imports):
        return
    for change in changed_variables(program):
        if change.name == "RANK" and not change.only_unset and _is_local(program.value(change.value)):
            yield found(
                distribution.LOCAL_RANK_AS_RANK,
                change.node,
                "RANK is set to the rank on the host: several hosts claim the same, and the start hangs",
                severity=severity,
            )


def _is_lightning(module: str | None) -> bool:
    return canonical(module or "").partition(".")[0] == "lightning"


def _asks_the_launcher(program: Program, call: ast.Call) -> bool:
    """Whether a call that makes the group has its ranks from what the launcher has set, and none other's."""
    method = argument(call, "init_method", 1)
    if is_open(call) or argument(call, "rank", 4) is not None or argument(call, "store", 5) is not None:
        return False
    return method is None or program.value(method) in (Constant("env://"), Constant(None))


def _is_called(program: Program, node: ast.AST) -> bool:
    """Whether a statement stands in the open, or in a function that the program calls."""
    scope = scope_of(node).function
    if scope is None:
        return True
    return isinstance(scope.node, FunctionNode) and bool(program.evaluation.callers.of(scope.node))


def _is_local(value: object) -> bool:
    return isinstance(value, RankValue) and value.kind is RankKind.LOCAL and value.source != "spawn"


def _makes_a_group(program: Program) -> bool:
    """Whether a group of several processes is made, by what the launcher has set or the script."""
    return any(_is_for_several(program, call) for call, _ in program.calls(*_STARTS))


def _is_for_several(program: Program, call: ast.Call) -> bool:
    size = constant(program, argument(call, "world_size", 3))
    return size is None or size.value not in (0, 1)


def is_part_of_the_start(program: Program, node: ast.AST) -> bool:
    """Whether every process comes by a statement: in any case, or where it joins the group."""
    return surely_runs(program, node) or any(
        runs_with(program, node, call)
        for call, _ in program.calls(*_STARTS)
        if _is_for_several(program, call)
    )


def _overwritten(program: Program, name: str) -> Iterator[ChangedVariable]:
    """Where the launcher's value is surely replaced; not by a program that is one process on purpose."""
    changes = [each for each in changed_variables(program) if each.name in (name, "WORLD_SIZE")]
    for each in changes:
        size = constant(program, each.value)
        if each.name == "WORLD_SIZE" and size is not None and str(size.value) == "1":
            return
    for each in changes:
        if each.name == name and not each.only_unset and is_part_of_the_start(program, each.node):
            yield each


def _is_replaced(program: Program, change: ChangedVariable) -> bool:
    """Whether the same function goes on to set the variable to what is not written in the program."""
    return any(
        other.name == change.name
        and scope_of(other.node) is scope_of(change.node)
        and getattr(other.node, "lineno", 0) > getattr(change.node, "lineno", 0)
        and constant(program, other.value) is None
        for other in changed_variables(program)
    )


def _address(program: Program, node: ast.AST, what: str, host: str) -> Finding:
    if not _LOOPBACK.fullmatch(host.strip("[]")):
        message, severity = f"{what}: on any other hosts nobody is there, and the start hangs", None
    elif is_for_one_host(program):
        message, severity = f"{what}: {_SPAWNED_HERE}", Severity.INFO
    else:
        message, severity = f"{what}: each of several hosts waits for itself alone", None
    return found(distribution.HARD_CODED_TOPOLOGY, node, message, severity=severity)


def _world_size(node: ast.AST, what: str, severity: Severity | None = None) -> Finding:
    return found(
        distribution.HARD_CODED_TOPOLOGY,
        node,
        f"{what}: with any other number of processes the start hangs, or samples are left out",
        remedy="Leave it out: WORLD_SIZE, which the launcher sets, is read.",
        severity=severity,
    )


RULES = (
    address_is_the_launchers,
    port_is_the_launchers,
    world_size_is_the_launchers,
    rank_is_the_global_one,
)
"""The rules of this family, in the order in which their findings are shown."""
