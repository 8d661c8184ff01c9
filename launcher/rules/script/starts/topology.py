"""Who the ranks are and where they meet: written into the script instead of asked of the launcher.

Without a job only what is harmful wherever it runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from launcher.failure_modes import distribution, nccl, sources
from launcher.failure_modes.model import Figure, Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    has_star_arguments,
    origins,
    parts_of,
    text_parts,
)
from launcher.program.index import FunctionNode, ancestors, last_name, scope_of
from launcher.program.objects.nodes import catches
from launcher.program.process_environment import ChangedVariable, changed_variables, variables_in
from launcher.program.process_starts import (
    has_another_launcher,
    is_for_one_host,
    port_behind,
    port_in,
    starts_side_by_side,
    torchruns_on_one_port,
)
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import runs_wherever, surely_runs
from launcher.program.surroundings.commands import torchrun_commands
from launcher.program.surroundings.options import (
    default_of_option,
)
from launcher.program.surroundings.shell_starts import ShellStarts
from launcher.program.values import (
    HOST_SIZES,
    UNKNOWN,
    Constant,
    RankValue,
    Several,
    WorldSize,
    alternatives,
)
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import (
    finding_at,
    finding_in_shell,
    related_at,
    related_in_file,
    texts_by_default,
)

GROUP = "torch.distributed.init_process_group"
SAMPLER = "torch.utils.data.DistributedSampler"
_STARTS = (GROUP, "deepspeed.init_distributed", "deepspeed.comm.init_distributed")

LOOPBACK = re.compile(r"localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|0\.0\.0\.0")
_ADDRESS = re.compile(r"(?:tcp|env)://(\[[0-9a-fA-F:]{2,45}\]|[\w.-]{1,253})(?::(\d{1,5}))?(?:[/?].{0,200})?")


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def address_is_the_launchers(program: Program) -> Iterator[Finding]:
    """MASTER_ADDR or the address of `init_method` written into the script.

    With `localhost` every host waits for itself alone; a fixed address is another machine's tomorrow. Under
    torchrun not even one host starts where the port differs too: its agent holds the store, and no rank
    would open another.

    Silent where a value of the launcher stays, where a later line of the function may replace the address,
    for one process alone, and where nobody can tell whether the line runs. A program that spawns its
    processes itself can run on one host only: there it is informational.

    So of the shell script beside the program that starts it on several hosts. An address that is the default
    of an option, or of a configuration, is a warning.

    Bad: `os.environ["MASTER_ADDR"] = "localhost"`. Good: no such line, or
    `os.environ.setdefault("MASTER_ADDR", "localhost")` for a start without launcher.
    Source: the sources of DIST006; torch/distributed/rendezvous.py.
    """
    yield from _addresses_in_shell(program)
    if not makes_a_group(program):
        return
    for change in _overwritten(program, "MASTER_ADDR"):
        address, related = _told(program, change.value)
        if address and LOOPBACK.fullmatch(address) and related and not _is_replaced(program, change):
            what = f"MASTER_ADDR is {address!r} where nobody gives another"
            yield _address(program, change.node, what, address, Severity.WARNING, related)
        fixed = constant_argument(program, change.value)
        if fixed is None or not isinstance(fixed.value, str) or _is_replaced(program, change):
            continue
        yield _address(program, change.node, f"MASTER_ADDR is fixed to {fixed.value!r}", fixed.value)
    for call, _ in program.calls(GROUP):
        given = argument_of(call, "init_method", 1)
        matched = None if given is None else _ADDRESS.fullmatch(_written_address(program, given))
        if given and matched and matched[0].startswith("tcp") and _is_for_several(program, call):
            _, related = _told(program, given)
            yield _address(program, given, f"the ranks meet at {matched[0]}", matched[1], related=related)
        put_in, related = (None, []) if given is None or matched else _host_put_in(program, given)
        if given and put_in and _is_for_several(program, call):
            what = f"the ranks meet at {put_in}"
            yield _address(program, given, what, put_in, Severity.WARNING, related)
    for call, _ in program.calls(_STORE):
        given = argument_of(call, "host_name", 0)
        host, size = constant_argument(program, given), argument_of(call, "world_size", 2)
        alone = size is None or program.value(size) in (Constant(1), Constant(None))
        if given is not None and host is not None and not alone and host.value != "0.0.0.0":  # Its own.
            yield _address(program, given, f"the store of the ranks is at {host.value}", str(host.value))


@finds(Stage.SCRIPT, nccl.PORT_IN_USE)
def port_is_the_launchers(program: Program) -> Iterator[Finding]:
    """MASTER_PORT written into the script.

    torchrun's agent listens on the port that it has set, and tells the ranks not to open another: with a
    port of the script's own they all wait for one that nobody holds, until the time-out. Without torchrun a
    fixed port is taken as soon as two jobs share a machine.

    Silent where a value of the launcher stays, for one process alone, and in programs that know SLURM or MPI,
    whose launchers set no port. Where the program, or the shell script beside it, starts the processes itself
    it is informational.

    Bad: `os.environ["MASTER_PORT"] = "12355"`. Good: no such line, or `setdefault`.
    Source: torch/distributed/rendezvous.py (`_torchelastic_use_agent_store`); the sources of NCCL009.
    """
    yield from _ports_in_shell(program)
    for given, fixed in _ports_told_to_libraries(program):
        message = f"port {fixed} is fixed: a second run on this machine finds it taken"
        yield finding_at(nccl.PORT_IN_USE, given, message, severity=Severity.INFO)
    own, others = is_for_one_host(program), has_another_launcher(program)
    if not makes_a_group(program) or (others and not own):
        return
    severity: Severity | None
    for change in () if others else _overwritten(program, "MASTER_PORT"):
        port, related = _told(program, change.value)
        if not port or not port.strip("0").isdecimal():
            continue
        if own:
            harm, severity = "a second run on this machine finds it taken", Severity.INFO
        else:
            harm = "torchrun listens on its own, and the ranks wait for one that nobody opens"
            severity = Severity.WARNING if related else None
        message = f"MASTER_PORT is {'' if related else 'fixed to '}{port}: {harm}"
        yield finding_at(nccl.PORT_IN_USE, change.node, message, severity=severity, related=related)
    for call, _ in program.calls(GROUP):
        method = argument_of(call, "init_method", 1)
        texts = texts_by_default(program, method) if own and method is not None else ()
        written = (_ADDRESS.fullmatch(each or "") for each in texts)
        behind = (
            ()
            if method is None
            else (port_behind(program, each) for each in origins(program, method) if each)
        )
        for fixed in dict.fromkeys([*behind, *(each[2] for each in written if each)]):
            if fixed is not None and _is_for_several(program, call):
                message = f"port {fixed} is fixed: under torchrun nobody opens it, and other runs may hold it"
                severity = Severity.INFO if own else None
                yield finding_at(nccl.PORT_IN_USE, method or call, message, severity=severity)


def _addresses_in_shell(program: Program) -> Iterator[Finding]:
    """Where the only line of a shell script that starts the program tells ranks of several hosts to meet."""
    starts = program.analysis(ShellStarts).starts
    for start in starts if len(starts) == 1 else ():
        host = (start.meets_at or "").partition(":")[0]
        if start.hosts is not None and start.hosts > 1 and LOOPBACK.fullmatch(host):
            yield finding_in_shell(
                distribution.HARD_CODED_TOPOLOGY,
                start,
                f"the ranks of {start.hosts} hosts are told to meet at {host}: each waits for itself alone",
            )


_PORT_ARGUMENTS = {
    "deepspeed.init_distributed": ("distributed_port", 2),
    "deepspeed.comm.init_distributed": ("distributed_port", 2),
    "accelerate.notebook_launcher": ("use_port", 4),
}
"""What opens the port of the group itself where no launcher has, and the argument that tells which."""


def _ports_told_to_libraries(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """Where a library that makes the group is told a port that is written: by an argument, or by the
    `main_port` of an environment of Lightning."""
    for call, name in program.calls(*_PORT_ARGUMENTS):
        given = argument_of(call, *_PORT_ARGUMENTS[name])
        fixed = constant_argument(program, given)
        if given is not None and fixed is not None and str(fixed.value).strip("0").isdecimal():
            yield given, str(fixed.value)
    for file in (each for each in program.files if "main_port" in each.text):
        for statement in file.nodes(ast.Return):
            function = scope_of(statement).function
            is_port = function is not None and getattr(function.node, "name", "") == "main_port"
            fixed = constant_argument(program, statement.value) if is_port else None
            if statement.value and fixed is not None and str(fixed.value).strip("0").isdecimal():
                yield statement.value, str(fixed.value)


def _ports_in_shell(program: Program) -> Iterator[Finding]:
    """Where a shell script that starts the program writes the port on which the first rank listens."""
    shell = program.analysis(ShellStarts)
    for start in shell.starts if shell.script and not shell.script.is_for_slurm else ():
        if start.port and start.port.strip("0").isdecimal():
            message = f"port {start.port} is fixed: a second run on this machine finds it taken"
            yield finding_in_shell(nccl.PORT_IN_USE, start, message, severity=Severity.INFO)


def _written_address(program: Program, given: ast.expr) -> str:
    """The address of a group where it is written, or the host's own by whatever port and options' default."""
    method, found = constant_argument(program, given), texts_by_default(program, given) - {"", "auto"}
    if is_for_one_host(program):
        found = {each for each in found if LOOPBACK.search(each or "")}
    begun = (found.pop() or "").rstrip(":") if len(found) == 1 else ""
    return str(method.value) if method else begun if LOOPBACK.search(begun) else ""


_OF_A_MACHINE = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


def _host_put_in(program: Program, given: ast.expr) -> tuple[str | None, list[Related]]:
    """The host that a configuration or an option's default puts into an address, `f"tcp://{cfg.host}:{port}"`,
    and where it is written."""
    for made in origins(program, given):
        parts = text_parts(program, made)[0]
        if len(parts) > 1 and program.value(parts[0]) == Constant("tcp://"):
            host, related = _told(program, parts[1])
            if host and related and (_OF_A_MACHINE.fullmatch(host) or LOOPBACK.fullmatch(host)):
                return host, related
    return None, []


_STORE = "torch.distributed.TCPStore"

FIGURES = (Figure("2.7", "PyTorch that uses the store of torchrun's agent", sources.TORCH_AGENT_STORE),)

ENDS_OLD_STORES = "torchrun's agent listens on MASTER_PORT already, which ends a store of PyTorch before 2.7"
"""The message of a store at the agent's port; whether it holds depends on the PyTorch of the job."""


@finds(Stage.SCRIPT, nccl.PORT_IN_USE)
def listeners_have_ports_of_their_own(program: Program) -> Iterator[Finding]:
    """A process that listens on a port on which another one of the host listens already.

    On MASTER_PORT, which torchrun's agent or the group's own store holds; on the port of `init_method`; on
    one fixed port in every process of a host; or by a torchrun in the script that is given MASTER_PORT, or
    the port of another one beside it.

    Silent about clients (`is_master=False`), about port 0, below a `try` that may handle it, and about
    MASTER_PORT in a program that knows SLURM or MPI. Of one that starts its processes itself only where two
    groups of them run side by side, at an address that is written. A store on MASTER_PORT is a warning, as
    PyTorch uses the agent's own from 2.7 on; a job that names its PyTorch decides.

    Bad: `TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0)`. Good:
    `is_master=False`, or port 0 whose number rank 0 broadcasts.
    Source: torch/distributed/rendezvous.py (`_torchelastic_use_agent_store`); the sources of NCCL009.
    """
    for word, number in torchruns_on_one_port(program):
        yield finding_at(nccl.PORT_IN_USE, word, f"several torchruns run side by side here on port {number}")
    if not makes_a_group(program):
        return
    if is_for_one_host(program):
        written = {port_in(program, argument_of(call, "init_method", 1)) for call, _ in program.calls(GROUP)}
        for start in starts_side_by_side(program) if None not in written else ():
            yield finding_at(nccl.PORT_IN_USE, start, "the groups that run side by side here share a port")
        return
    others, group_ports = has_another_launcher(program), list(_ports_of_groups(program))
    for call, port, alone in _listeners(program):
        if any(map(catches, ancestors(call))):
            continue
        fixed = constant_argument(program, port)
        is_written = fixed is not None and str(fixed.value).strip("0").isdecimal()
        of_launcher = "MASTER_PORT" in variables_in(program, port)
        beside = of_launcher and _is_another_number(program, port)
        by_all = surely_runs(program, call) and program.analysis(Participants).ranks_running(call) is True
        if of_launcher and not beside:
            if others:
                continue
            if program.qualified(call.func) == _STORE:
                yield finding_at(nccl.PORT_IN_USE, call, ENDS_OLD_STORES, severity=Severity.WARNING)
            else:
                yield finding_at(nccl.PORT_IN_USE, call, "torchrun's agent listens on MASTER_PORT already")
        elif ast.dump(port) in group_ports:
            yield finding_at(nccl.PORT_IN_USE, call, "rank 0 listens on this port already, for the group")
        elif not alone and by_all and (is_written or (beside and not _differs_by_rank(program, port))):
            named = fixed.value if fixed is not None else f"`{ast.unparse(port)}`"
            yield finding_at(nccl.PORT_IN_USE, call, f"every process would listen on port {named}")
        elif alone and fixed is not None and is_written:
            message = f"port {fixed.value} is fixed: a second run on this machine finds it taken"
            yield finding_at(nccl.PORT_IN_USE, call, message, severity=Severity.INFO)
    for _, words in torchrun_commands(program):
        taken = [each for each in words if "MASTER_PORT" in variables_in(program, each)]
        if taken and not others:
            message = "the torchrun around this one listens on MASTER_PORT"
            yield finding_at(nccl.PORT_IN_USE, taken[0], message)


def _listeners(program: Program) -> Iterator[tuple[ast.Call, ast.expr, bool]]:
    """What listens on a port, the port, and whether that may be one process alone."""
    for call, _ in program.calls(_STORE):
        port, master = argument_of(call, "port", 1), argument_of(call, "is_master", 3)
        leads = None if master is None else program.value(master)
        if port is not None and master is not None and leads not in (Constant(False), Constant(None)):
            yield call, port, leads != Constant(True)
    for call, _ in program.calls("socket.socket.bind", "http.server.HTTPServer", "socketserver.TCPServer"):
        address = program.value(call.args[0]) if call.args else UNKNOWN
        if isinstance(address, Several) and len(address.node.elts) == 2:
            yield call, address.node.elts[1], False


def _is_another_number(program: Program, port: ast.expr) -> bool:
    """Whether a port is calculated, such as one beside MASTER_PORT."""
    return any(isinstance(each, ast.BinOp) for each in parts_of(program, port))


def _differs_by_rank(program: Program, port: ast.expr) -> bool:
    """Whether a rank is a part of a port."""
    parts = (each for each in parts_of(program, port) if isinstance(each, ast.expr))
    return any(isinstance(program.value(each), RankValue) for each in parts)


def _ports_of_groups(program: Program) -> Iterator[str]:
    """The ports in the addresses at which groups meet, as they are written."""
    for call, _ in program.calls(GROUP):
        method = argument_of(call, "init_method", 1)
        for made in () if method is None else origins(program, method):
            last = made.values[-1] if isinstance(made, ast.JoinedStr) else None
            if isinstance(last, ast.FormattedValue):
                yield ast.dump(last.value)


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def world_size_is_the_launchers(program: Program) -> Iterator[Finding]:
    """A number of processes that is written into the script, or taken from the GPUs of one host.

    With more processes than that, some are ranks that do not exist; with fewer, the start waits for those
    that never come.

    Silent for one process, and in a program that spawns its processes itself. Of several calls that make the
    group, one under a test counts only where its ranks come from the launcher's variables; it is a warning
    then, as are a sampler under a test, beside a rank, and an option's default.

    Bad: `init_process_group("nccl", world_size=8, rank=rank)`, `world_size=torch.cuda.device_count()`. Good:
    `init_process_group("nccl")`, which reads WORLD_SIZE.
    Source: the sources of DIST006.
    """
    if is_for_one_host(program) or not makes_a_group(program):
        return
    # The only call that makes the group is every run's of several processes, whatever stands around it.
    only = len(list(program.calls(GROUP))) == 1
    for call, name in program.calls(GROUP, SAMPLER):
        keyword, position = ("world_size", 3) if name == GROUP else ("num_replicas", 1)
        if (given := argument_of(call, keyword, position)) is None:
            continue
        rank = argument_of(call, "rank", position + 1)
        is_ranks = rank is not None and isinstance(program.value(rank), RankValue)
        option = default_of_option(program, given) if is_ranks else None
        value = Constant(option.value) if option else program.value(given)
        called = _is_called(program, call) and (name == GROUP or is_ranks)
        severity = Severity.WARNING if option else None
        if not ((only and called and name == GROUP) or surely_runs(program, call)):
            if not called or (name == GROUP and not asks_the_launcher(program, call)):
                continue
            severity = Severity.WARNING
        if isinstance(value, Constant) and type(value.value) is int and value.value > 1:
            yield _world_size(given, f"{keyword} is fixed to {value.value}", severity)
        elif value == WorldSize("torch.cuda.device_count"):
            yield _world_size(given, f"{keyword} is the number of GPUs of one host", severity)
    for change in _overwritten(program, "WORLD_SIZE"):
        size = constant_argument(program, change.value)
        if size is not None and str(size.value).isdigit() and int(str(size.value)) > 1:
            yield _world_size(change.node, f"WORLD_SIZE is fixed to {size.value}")


_GATHERED_INTO = {
    "torch.distributed.all_gather": ("tensor_list", 0, 2),
    "torch.distributed.all_gather_object": ("object_list", 0, 2),
    "torch.distributed.gather": ("gather_list", 1, 3),
    "torch.distributed.gather_object": ("object_gather_list", 1, 3),
}
"""The parameter for the list of what is gathered, its place, and that of the group."""


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def gathered_lists_hold_all_ranks(program: Program) -> Iterator[Finding]:
    """A list for what all ranks send that is as long as one host has GPUs.

    On several hosts it is too short, and each rank ends with an error at the first gather.

    Silent in a program that spawns its processes itself, and about a group of some ranks.

    Bad: `dist.all_gather([torch.empty_like(x) for _ in range(torch.cuda.device_count())], x)`. Good:
    `range(dist.get_world_size())`.
    Source: torch/distributed/distributed_c10d.py (all_gather, gather).
    """
    if is_for_one_host(program):
        return
    for call, name in program.calls(*_GATHERED_INTO):
        keyword, position, group = _GATHERED_INTO[name]
        given = argument_of(call, keyword, position)
        if given is None or has_star_arguments(call) or argument_of(call, "group", group) is not None:
            continue
        lengths = [_length(made) for made in origins(program, given)]
        if lengths and all(each is not None and _is_of_one_host(program, each) for each in lengths):
            yield finding_at(
                distribution.HARD_CODED_TOPOLOGY,
                given,
                "the list has a place for each GPU of one host, and all ranks of several hosts are gathered "
                "into it: it is too short, and the ranks end with an error",
                remedy="Make it as long as `dist.get_world_size()`.",
            )


def _length(made: ast.expr | None) -> ast.expr | None:
    """How long a list is made: the N of `[x for _ in range(N)]` and `[x] * N`."""
    if isinstance(made, ast.ListComp) and isinstance(made.generators[0].iter, ast.Call):
        over = made.generators[0].iter
        return over.args[0] if last_name(over.func) == "range" and len(over.args) == 1 else None
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):
        return made.right if isinstance(made.left, ast.List) else made.left
    return None


def _is_of_one_host(program: Program, size: ast.expr) -> bool:
    """Whether a number is that of the GPUs of a host, besides 1 where there are none."""
    values = {*alternatives(program.value(size))}
    counts = {each for each in values if isinstance(each, WorldSize) and each.source in HOST_SIZES}
    return bool(counts) and values - counts <= {Constant(1)}


def asks_the_launcher(program: Program, call: ast.Call) -> bool:
    """Whether a call that makes the group has its ranks from what the launcher has set, and none other's."""
    method = argument_of(call, "init_method", 1)
    if (
        has_star_arguments(call)
        or argument_of(call, "rank", 4) is not None
        or argument_of(call, "store", 5) is not None
    ):
        return False
    return method is None or program.value(method) in (Constant("env://"), Constant(None))


def _is_called(program: Program, node: ast.AST) -> bool:
    """Whether a statement stands in the open, or in a function that the program calls."""
    scope = scope_of(node).function
    sites = program.evaluation.callers.call_sites
    return scope is None or (isinstance(scope.node, FunctionNode) and bool(sites(scope.node)))


def makes_a_group(program: Program) -> bool:
    """Whether a group of several processes is made, by what the launcher has set or the script."""
    return any(_is_for_several(program, call) for call, _ in program.calls(*_STARTS))


def _is_for_several(program: Program, call: ast.Call) -> bool:
    size = constant_argument(program, argument_of(call, "world_size", 3))
    return size is None or size.value not in (0, 1)


def is_part_of_the_start(program: Program, node: ast.AST) -> bool:
    """Whether every process comes by a statement: in any case, or where it joins the group."""
    return surely_runs(program, node) or any(
        runs_wherever(program, node, call)
        for call, _ in program.calls(*_STARTS)
        if _is_for_several(program, call)
    )


def _overwritten(program: Program, name: str) -> Iterator[ChangedVariable]:
    """Where the launcher's value is surely replaced; not by a program that is one process on purpose."""
    changes = [each for each in changed_variables(program) if each.name in (name, "WORLD_SIZE")]
    for each in changes:
        size = constant_argument(program, each.value)
        if each.name == "WORLD_SIZE" and size is not None and str(size.value) == "1":
            return
    for each in changes:
        if each.name == name and not each.only_unset and is_part_of_the_start(program, each.runs):
            yield each


def _is_replaced(program: Program, change: ChangedVariable) -> bool:
    """Whether the same function goes on to set the variable to what is not written in the program; not where
    that is tried, and the program starts its processes itself."""
    here = is_for_one_host(program)
    return any(
        other.name == change.name
        and scope_of(other.runs) is scope_of(change.runs)
        and getattr(other.runs, "lineno", 0) > getattr(change.runs, "lineno", 0)
        and constant_argument(program, other.value) is None
        and not (here and any(isinstance(each, ast.Try) for each in ancestors(other.runs)))
        for other in changed_variables(program)
    )


def _told(program: Program, given: ast.expr) -> tuple[str | None, list[Related]]:
    """The text or number that an expression is, by the default of an option or of a configuration too, and
    where that is written."""
    made = [each for each in origins(program, given) if each is not None]
    inner = given
    if len(made) == 1 and isinstance(made[0], ast.Call) and program.qualified(made[0].func) == "str":
        inner = made[0].args[0] if made[0].args else given
    if (known := constant_argument(program, inner)) is not None:
        return str(known.value), []
    option = default_of_option(program, inner)
    if option is not None:
        return str(option.value), [related_at(option.node, "the default is written here")]
    held = program.analysis(ConfigurationFiles).entry(inner)
    texts = {str(each) for each in held.values} if held is not None else set()
    places = [related_in_file(path, keys[-1]) for path, keys in held.sources if keys] if held else []
    return (texts.pop(), places[:3]) if len(texts) == 1 and places else (None, [])


def _address(
    program: Program,
    node: ast.AST,
    what: str,
    host: str,
    severity: Severity | None = None,
    related: Sequence[Related] = (),
) -> Finding:
    if not LOOPBACK.fullmatch(host.strip("[]")):
        message = f"{what}: on any other hosts nobody is there, and the start hangs"
    elif is_for_one_host(program):
        harm = "as the program starts its processes itself, it can only run on one host"
        message, severity = f"{what}: {harm}", Severity.INFO
    else:
        message = f"{what}: each of several hosts waits for itself alone"
    return finding_at(distribution.HARD_CODED_TOPOLOGY, node, message, severity=severity, related=related)


def _world_size(node: ast.AST, what: str, severity: Severity | None = None) -> Finding:
    return finding_at(
        distribution.HARD_CODED_TOPOLOGY,
        node,
        f"{what}: with any other number of processes the start hangs, or samples are left out",
        remedy="Leave it out: WORLD_SIZE, which the launcher sets, is read.",
        severity=severity,
    )


TOPOLOGY_RULES = (
    address_is_the_launchers,
    port_is_the_launchers,
    listeners_have_ports_of_their_own,
    world_size_is_the_launchers,
    gathered_lists_hold_all_ranks,
)
"""The rules of this family, in the order in which their findings are shown."""
