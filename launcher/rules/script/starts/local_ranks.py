"""LOCAL_RANK, the rank on a host, where the rank among the processes of all hosts is wanted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.index import BindingKind, file_of
from launcher.program.process_environment import changed_variables
from launcher.program.process_starts import is_for_one_host
from launcher.program.program import Program
from launcher.program.values import (
    INIT_PROCESS_GROUP,
    Constant,
    RankKind,
    RankValue,
    canonical_name,
    is_size_of_all,
)
from launcher.rules.script.findings import finding_at, related_at

_JOINED_AS = {
    INIT_PROCESS_GROUP: 4,
    "deepspeed.init_distributed": 8,
    "deepspeed.comm.init_distributed": 8,
    "torch.distributed.rpc.init_rpc": 2,
}
"""What joins the processes of all hosts, and the place of the rank that it is given."""


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
    groups = [*program.calls(*_JOINED_AS)]
    for call, name in groups:
        given = argument_of(call, "rank", _JOINED_AS[name])
        if given is not None and _is_local(program.value(given)):
            yield finding_at(
                distribution.LOCAL_RANK_AS_RANK,
                given,
                f"{file_of(given).source(given)}, the rank on the host, is given to "
                f"{name.rpartition('.')[2]} as the rank: several hosts claim the same ranks, and the start "
                "hangs",
                severity=severity,
            )
    modules = (each.module or "" for file in program.files for each in file.imports)
    if not groups and any(canonical_name(each).startswith("lightning") for each in modules):
        return
    for change in changed_variables(program):
        if change.name == "RANK" and not change.only_unset and _is_local(program.value(change.value)):
            yield finding_at(
                distribution.LOCAL_RANK_AS_RANK,
                change.node,
                "RANK is set to the rank on the host: several hosts claim the same, and the start hangs",
                severity=severity,
            )


_SHARES = {
    "itertools.islice": (("start", 1), ("step", 3)),
    "datasets.distributed.split_dataset_by_node": (("rank", 1), ("world_size", 2)),
}
"""What takes every so manieth of something, and where it is told which of them and of how many."""


@finds(Stage.SCRIPT, distribution.LOCAL_RANK_AS_RANK)
def shares_are_of_the_global_rank(program: Program) -> Iterator[Finding]:
    """Data that are cut into a share for each process of all hosts, and taken by the rank on the host.

    Each host reads the shares of the first one, and nobody the others.

    Only where both numbers are known. Informational in a program that starts its processes itself.

    Bad: `files[local_rank::dist.get_world_size()]`. Good: `files[dist.get_rank()::dist.get_world_size()]`.
    Source: the sources of DIST007.
    """
    severity = Severity.INFO if is_for_one_host(program) else None
    for place, which, number in _shares(program):
        if is_size_of_all(program.value(number)) and _is_local(program.value(which)):
            given = _as_given(program, which)
            yield finding_at(
                distribution.LOCAL_RANK_AS_RANK,
                place if given is which else given,
                f"{file_of(given).source(given)}, the rank on the host, takes one share of as many as all "
                "hosts have processes: each host reads the same ones, and nobody the others",
                remedy="Take the share of the rank among all processes, `dist.get_rank()`.",
                severity=severity,
                related=() if given is which else (related_at(place, "here the share is taken"),),
            )


def _as_given(program: Program, node: ast.expr) -> ast.expr:
    """What the only call of a function gives it, where an expression is its parameter, or a field that is
    set to one; else the expression itself."""
    bindings = program.evaluation.sources(node) if isinstance(node, ast.Name | ast.Attribute) else []
    only = bindings[0] if len(bindings) == 1 else None
    if only is None:
        return node
    if only.kind is not BindingKind.PARAMETER:
        inner = only.value if isinstance(only.value, ast.Name) else None
        found = node if inner is None else _as_given(program, inner)
        return node if found is inner else found
    parameter = only.node if isinstance(only.node, ast.arg) else None
    sites = () if parameter is None else program.evaluation.callers.call_sites_giving(parameter)
    given = sites[0].given_or_default(parameter) if parameter and sites and len(sites) == 1 else None
    return node if given is None else given


def _shares(program: Program) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Where a share of something is taken: the place, which one, and of how many."""
    for call, name in program.calls(*_SHARES):
        which, number = (argument_of(call, *each) for each in _SHARES[name])
        if which is not None and number is not None:
            yield call, which, number
    for file in program.files:
        for call in file.calls_of.get("shard", ()):
            which, number = argument_of(call, "index", 1), argument_of(call, "num_shards", 0)
            if which is not None and number is not None:
                yield call, which, number
        if "rank" not in file.text.lower():
            continue
        for cut in file.nodes(ast.Slice):
            if cut.lower is not None and cut.step is not None:
                yield cut.lower, cut.lower, cut.step
        for node in (each for each in file.nodes(ast.Compare) if len(each.ops) == 1):
            for one, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod):
                    yield node, other, one.right


def _is_local(value: object) -> bool:
    return isinstance(value, RankValue) and value.kind is RankKind.LOCAL and value.source != "spawn"


def takes_rank_for_local(program: Program) -> bool:
    """Whether a program sets RANK to something else than the launcher's, as it may to LOCAL_RANK."""
    changed = [program.value(each.value) for each in changed_variables(program) if each.name == "RANK"]
    return any(_is_local(each) or isinstance(each, Constant) for each in changed)


LOCAL_RANK_RULES = (rank_is_the_global_one, shares_are_of_the_global_rank)
"""The rules of this family, in the order in which their findings are shown."""
