"""Defects of the start: who the ranks are and where they meet, devices, the environment, options, saves."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from tools.benchmarks.seeding.site import MENTIONS_RANK, TESTS_RANK_0, Site
from tools.benchmarks.seeding.switches import is_switched_off
from tools.benchmarks.seeding.whole import Places, Whole, is_method, kind, moved

_INIT = "torch.distributed.init_process_group"
_SPAWNS = re.compile(r"\bspawn\(|start_processes\(|submitit|mp\.Process\(")


def _starts(whole: Whole) -> Iterator[tuple[Site, ast.Call, ast.stmt]]:
    for site in whole.sites:
        for call in site.calls_of(_INIT):
            if whole.reaches(site, call):
                yield site, call, site.statement(call)


def _set_before(whole: Whole, name: str, value: str) -> Places:
    for site, call, statement in _starts(whole):
        method = site.keyword(call, "init_method")
        if method is not None and site.source(method).strip("\"'") != "env://":
            continue
        if name in whole.text or not whole.on_every_rank(site, call) or site.alias("os") != "os":
            continue
        text = site.with_before(statement, [f'os.environ["{name}"] = {value}'])
        yield site, text, {statement.lineno}


@kind("fixed port", "NCCL009")
def fixed_port(whole: Whole) -> Places:
    """A port of the script's own."""
    yield from _set_before(whole, "MASTER_PORT", '"29500"')


@kind("fixed address", "DIST006")
def fixed_address(whole: Whole) -> Places:
    """An address of the script's own, in the environment or as init_method."""
    yield from _set_before(whole, "MASTER_ADDR", '"10.0.0.12"')
    for site, call, _ in _starts(whole):
        if site.keyword(call, "init_method") is not None and not _SPAWNS.search(whole.text):
            text = site.with_argument(call, "init_method", '"tcp://10.0.0.12:23456"')
            yield site, text, site.lines_of(call)


@kind("fixed world size", "DIST006")
def fixed_world_size(whole: Whole) -> Places:
    """A number of processes written into the script."""
    if not _SPAWNS.search(whole.text):
        for site, call, _ in _starts(whole):
            text = site.with_argument(call, "world_size", "8")
            yield site, text, site.lines_of(call)


@kind("LOCAL_RANK as rank", "DIST007")
def local_rank_as_rank(whole: Whole) -> Places:
    """LOCAL_RANK as the rank of the process group."""
    if not _SPAWNS.search(whole.text):
        for site, call, _ in _starts(whole):
            if site.alias("os") == "os":
                text = site.with_argument(call, "rank", 'int(os.environ["LOCAL_RANK"])')
                yield site, text, site.lines_of(call)


@kind("device from the global rank", "DIST006")
def global_rank_as_device(whole: Whole) -> Places:
    """The rank among all processes as the index of a device."""
    if _SPAWNS.search(whole.text):
        return
    for site in whole.sites:
        for call in site.calls_of("torch.cuda.set_device", "torch.nn.parallel.DistributedDataParallel"):
            dist = site.alias("torch.distributed")
            function = site.function(call)
            # Before the group is made, get_rank() raises an error, which is another defect.
            late = all(
                site.function(init) is not function or init.lineno < call.lineno
                for init in site.calls_of(_INIT)
            )
            new = f"{dist}.get_rank()" if dist and late and call.lineno % 2 else 'int(os.environ["RANK"])'
            if (new.startswith("int") and site.alias("os") != "os") or not whole.reaches(site, call):
                continue
            if re.search(r"(?<![a-z_])(global_)?rank\b", site.source(call)):
                continue  # It may be the global rank already.
            if site.dotted(call.func) == "torch.cuda.set_device":
                if len(call.args) != 1 or re.search(r"%|device_count", site.source(call)):
                    continue
                text = site.replaced([(site.span(call.args[0]), new)])
            else:
                if site.keyword(call, "device_ids") is None:
                    continue
                text = site.with_argument(call, "device_ids", f"[{new}]") or site.text
            yield site, text, site.lines_of(call)


@kind("number in os.environ", "CODE003")
def integer_in_environment(whole: Whole) -> Places:
    """A number put into os.environ."""
    for site, _, statement in _starts(whole):
        if site.alias("os") == "os":
            text = site.with_before(statement, ['os.environ["OMP_NUM_THREADS"] = 4'])
            yield site, text, {statement.lineno}


@kind("network interface chosen", "NCCL001")
def interface_chosen(whole: Whole) -> Places:
    """NCCL's interface chosen by the script."""
    for site, call, statement in _starts(whole):
        if site.alias("os") == "os" and "NCCL_" not in whole.text and not site.under_rank(call):
            if any(isinstance(each, ast.If) for each in site.around(statement)):
                continue  # Under a condition it may be meant.
            text = site.with_before(statement, ['os.environ["NCCL_SOCKET_IFNAME"] = "eth0"'])
            yield site, text, {statement.lineno}


@kind("type=bool", "CODE002")
def bool_as_type(whole: Whole) -> Places:
    """A switch made an option with type=bool."""
    for site in whole.sites:
        if "argparse" not in site.imported and "ArgumentParser" not in site.imported:
            continue
        for call in site.calls:
            action = site.keyword(call, "action")
            if not is_method(call, "add_argument") or getattr(action, "value", None) != "store_true":
                continue
            if not whole.reaches(site, call) or (site is not whole.sites[0] and site.under_main_guard(call)):
                continue  # Nobody starts this file.
            given = next(each for each in call.keywords if each.arg == "action")
            text = site.replaced([(site.span(given), "type=bool")])
            yield site, text, site.lines_of(call)


@kind("save without a guard", "CKPT008")
def save_without_guard(whole: Whole) -> Places:
    """The test for rank 0 around a save removed; not where the program as it is written never saves."""
    if _INIT.rpartition(".")[2] not in whole.text:
        return
    for site in whole.sites:
        for node in ast.walk(site.tree):
            if not isinstance(node, ast.If) or node.orelse or not whole.on_every_rank(site, node):
                continue
            saves = [each for each in site.calls_of("torch.save") if node in site.around(each)]
            if len(saves) != 1 or MENTIONS_RANK.search(site.source(saves[0])) or len(saves[0].args) < 2:
                continue
            inner = [each for each in site.around(saves[0]) if node in site.around(each)]
            if any(isinstance(e, ast.If) and MENTIONS_RANK.search(site.source(e.test)) for e in inner):
                continue
            # Without its names the other ranks would stop with a NameError, which is another defect.
            if not is_switched_off(whole, site, saves[0]) and not _lacks_names(site, node):
                text, by = _unguarded(site, node)
                yield site, text, moved(site.lines_of(saves[0]), by)


def _lacks_names(site: Site, node: ast.If) -> bool:
    """Whether what stands in a block uses a variable that only ranks under another test have set."""
    function = site.function(node)
    if function is None:
        return False
    inside = set(ast.walk(node))
    for used in inside:
        if isinstance(used, ast.Name) and isinstance(used.ctx, ast.Load):
            stores = [
                each
                for each in ast.walk(function)
                if isinstance(each, ast.Name) and each.id == used.id and isinstance(each.ctx, ast.Store)
            ]
            if stores and not any(each in inside or not site.under_rank(each) for each in stores):
                return True
    return False


def _unguarded(site: Site, node: ast.If) -> tuple[str | None, int]:
    """The text without the test of the rank, and by how many lines its body moves."""
    if TESTS_RANK_0.fullmatch(site.source(node.test)):
        lines = site.text.splitlines(keepends=True)
        indent, last = site.indent(node), node.body[-1].end_lineno
        if indent is None or last is None:
            return None, 0
        body = textwrap.indent(textwrap.dedent("".join(lines[node.body[0].lineno - 1 : last])), indent)
        start = node.body[0].lineno - 1
        return "".join([*lines[: node.lineno - 1], body, *lines[last:]]), node.lineno - 1 - start
    test = node.test
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        parts = [site.source(each) for each in test.values]
        kept = [each for each in parts if not TESTS_RANK_0.fullmatch(each)]
        is_whole = len(kept) == len(parts) - 1 and "\n" not in site.source(test)
        if is_whole and not any(map(MENTIONS_RANK.search, kept)):
            return site.replaced([(site.span(test), " and ".join(kept))]), 0
    return None, 0
