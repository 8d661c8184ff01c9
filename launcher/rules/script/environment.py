"""What a script sets and reads of its surroundings: os.environ, addresses and ranks, command-line options.

Settings that fight EFA, that nobody reads, or that are no strings; who the ranks are and where they meet,
written into the script instead of asked of the launcher; options that do not do what they look like.
Without a job only what is harmful wherever it runs; what depends on the instance type or on the version of
torch is a matter of the rules that know the job.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from launcher.failure_modes import disk, distribution, nccl, training_script
from launcher.failure_modes.model import FailureMode, Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    has_star_arguments,
    origins,
)
from launcher.program.index import FunctionNode, ancestors, file_of, last_name, scope_of, statement_of
from launcher.program.overlapping_starts import starts_side_by_side, torchruns_on_one_port
from launcher.program.process_environment import (
    ChangedVariable,
    changed_variables,
    has_another_launcher,
    is_for_one_host,
    mentions_environment,
    plain_type_of,
    port_behind,
    port_in,
    process_starts,
    torchrun_commands,
    variables_in,
)
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import runs_wherever, surely_runs
from launcher.program.surroundings.options import (
    DefaultRun,
    constant_by_default,
    default_of_option,
    is_taken,
    text_by_default,
)
from launcher.program.surroundings.shell_starts import ShellSetting, ShellStarts
from launcher.program.values import (
    HOST_SIZES,
    UNKNOWN,
    Constant,
    External,
    RankKind,
    RankValue,
    Several,
    WorldSize,
    alternatives,
    canonical_name,
    like,
)
from launcher.rules import shared_facts
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import (
    finding_at,
    finding_in_shell,
    related_at,
    related_in_file,
    texts_by_default,
    wrap_node,
)

_COMPILERS = frozenset(
    {
        "TRITON_CACHE_DIR",
        "TRITON_HOME",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "CUDA_CACHE_PATH",
        "NUMBA_CACHE_DIR",
    }
)
"""Where compilers keep what they made, by renaming and deleting files while others read them."""

_HUBS = frozenset(
    {
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_DATASETS_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "TRANSFORMERS_CACHE",
        "TORCH_HOME",
        "XDG_CACHE_HOME",
    }
)
"""Where downloads from model hubs are kept, under locks that not every file system has."""

_SHARED = re.compile(
    r"(?:/mnt|/opt/ml/input/data)?/(?:fsx|efs|lustre|nfs|gpfs)(?:[-_](?!local)[^/]*)?(?:/.*)?", re.IGNORECASE
)
"""What people call the folders at which they mount network file systems, or their channels."""

_EXTENSIONS = ("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")


@finds(Stage.SCRIPT, nccl.FIGHTS_THE_PLUGIN)
def network_is_left_to_the_plugin(program: Program) -> Iterator[Finding]:
    """A script that chooses NCCL's network, protocols or interfaces by itself.

    NCCL's plugin for EFA chooses them for each instance type, and never over what is set. A value copied from
    another cluster turns EFA off, names an interface that some host lacks, or does nothing.

    Silent where the setting stands under a test that nobody can tell, about variables that harm only with
    EFA, or only without, and about the loopback interface where the program meets at the loopback address,
    on one host.

    Bad: `os.environ["NCCL_SOCKET_IFNAME"] = "eth0"`. Good: no such line.
    Source: the sources of NCCL001.
    """
    settings = list(_surely_set(program))
    for change, value in settings:
        if (change.name, value) == ("NCCL_SOCKET_IFNAME", "lo") and _meets_on_one_host(change, settings):
            continue
        if harm := shared_facts.network_harm(change.name, value):
            yield _finding(nccl.FIGHTS_THE_PLUGIN, change, f"{value!r} {harm}", Severity.WARNING)
    for change in changed_variables(program):
        advice = shared_facts.advice_on(change.name)
        if advice is None or not advice.whatever_it_is or change.name in variables_in(program, change.value):
            continue
        if not isinstance(program.value(change.value), Constant) and is_set_in_every_run(program, change):
            yield _finding(nccl.FIGHTS_THE_PLUGIN, change, f"... {advice.harm}", Severity.WARNING)
    shell = program.analysis(ShellStarts)
    for each in shell.settings if shell.script and not shell.script.is_for_slurm else ():
        is_here = each.value == "lo" and all(start.hosts in (None, 1) for start in shell.starts)
        if (harm := shared_facts.network_harm(each.name, each.value)) and not is_here:
            yield _in_shell(nccl.FIGHTS_THE_PLUGIN, each, f" {harm}", Severity.WARNING)


@finds(Stage.SCRIPT, nccl.OBSOLETE_ENVIRONMENT)
def settings_are_read_by_something(program: Program) -> Iterator[Finding]:
    """A script that sets a variable which nothing reads, or which does something else than it was meant to.

    What it was to change stays as it is, and nothing says so.

    Silent about names that changed with torch 2.2: which version runs is known to the job alone.

    Bad: `os.environ["NCCL_TIMEOUT"] = "3600"`. Good: `init_process_group(timeout=timedelta(hours=1))`.
    Source: the sources of NCCL002, and the searched repositories that `launcher/rules/shared_facts.py` names.
    """
    for change, value in _surely_set(program):
        if harm := shared_facts.why_obsolete(change.name, value, None):
            yield _finding(nccl.OBSOLETE_ENVIRONMENT, change, f"{value!r}: {harm}")
    for each in program.analysis(ShellStarts).settings:
        if harm := shared_facts.why_obsolete(each.name, each.value, None):
            yield _in_shell(nccl.OBSOLETE_ENVIRONMENT, each, f": {harm}")


@finds(Stage.SCRIPT, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_every_run(program: Program) -> Iterator[Finding]:
    """A script that switches debugging on for every run.

    Kernels that wait for each other, or logs of every call, are paid for on all hosts.

    Silent under a test, such as `if args.debug:`. TORCH_DISTRIBUTED_DEBUG behind `import torch`, which has
    read it by then, is informational; a program that spawns its ranks hands it on to them.

    Bad: `os.environ["CUDA_LAUNCH_BLOCKING"] = "1"` at the top. Good: `profile: debug` in the job file, or the
    variable in the shell for the one run that needs it.
    Source: the sources of NCCL003; torch/distributed/__init__.py, which calls set_debug_level_from_env.
    """
    for change, value in _surely_set(program):
        yield from _debugging(program, change, value)
    for each in program.analysis(ShellStarts).settings:
        if harm := shared_facts.debugging_cost(each.name, each.value):
            severity = Severity.INFO if shared_facts.is_only_verbose(each.name, each.value) else None
            yield _in_shell(nccl.DEBUGGING_ENVIRONMENT, each, f" in every run {harm}", severity)
    for call, _ in program.calls("torch.distributed.set_debug_level"):
        if call.args and last_name(call.args[0]) == "DETAIL" and surely_runs(program, call):
            harm = shared_facts.debugging_cost("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
            yield finding_at(nccl.DEBUGGING_ENVIRONMENT, call, f"DebugLevel.DETAIL in every run {harm}")


@finds(Stage.SCRIPT, training_script.ENVIRONMENT_VALUE_NOT_STRING)
def environment_holds_strings(program: Program) -> Iterator[Finding]:
    """A value that is surely no string, put into os.environ in any way: TypeError on every rank.

    Where a value's type is not sure, such as an option without a `type`, nothing is said; a warning where it
    is that of an entry of a configuration, which a run may change.

    Bad: `os.environ["GPU_NUM_DEVICES"] = 4`. Good: `os.environ["GPU_NUM_DEVICES"] = "4"`.
    Source: Python's os.environ; the bad line stands in AWS's guide to Training Compiler.
    """
    for change in changed_variables(program):
        if change.as_text:
            continue
        known = plain_type_of(program, change.value)
        kind = known or _type_of_entry(program, change.value)
        if kind is None or kind == "str":
            continue
        written = file_of(change.value).source(change.value)
        yield finding_at(
            training_script.ENVIRONMENT_VALUE_NOT_STRING,
            change.node,
            f"{change.name} is set to {written}, which is no string: TypeError (str expected, not "
            f"{kind}) on every rank",
            severity=None if known else Severity.WARNING,
            fix=_as_string(change, kind),
        )


def _type_of_entry(program: Program, value: ast.expr) -> str | None:
    """The type of an entry of a configuration: in its file, or as the program sets it by this name."""
    if not isinstance(value, ast.Attribute | ast.Subscript):
        return None
    entry = program.analysis(ConfigurationFiles).entry(value)
    kinds = {type(each).__name__ for each in entry.values} if entry else set[str | None]()
    if entry is None and isinstance(value, ast.Attribute):
        written = (last_name(value.value), value.attr)
        settings = [each for file in program.files for each in file.set_attributes.get(value.attr, ())]
        kinds = {
            None if each.value is None or each.item is not None else plain_type_of(program, each.value)
            for each in settings
            if tuple(each.name.split(".")[-2:]) == written
        }
    return kinds.pop() if len(kinds) == 1 and kinds <= {"int", "float", "bool"} else None


@finds(Stage.SCRIPT, disk.SHARED_CACHE)
def caches_are_each_hosts_own(program: Program) -> Iterator[Finding]:
    """A compiler's or hub's cache on a file system that hosts share.

    Ranks of several hosts write, rename and delete the same files there: 'Stale file handle', torn entries,
    and a compilation that waits for another host's lock. For a hub's cache, which is only downloaded into,
    this is informational.

    Of an option, or a variable with a default, that counts. A folder counts as shared by its name alone: fsx,
    efs, lustre, nfs or gpfs at the root, below /mnt or as the name of a channel.

    Bad: `os.environ["TRITON_CACHE_DIR"] = "/fsx/triton"`. Good: `"/tmp/triton"`, or a folder for each host.
    Source: the sources of DISK002.
    """
    shared = "is on a file system that the hosts share: their ranks write and delete each other's entries"
    for change in changed_variables(program):
        place = text_by_default(program, change.value) if change.name in _COMPILERS | _HUBS else None
        if place and _SHARED.fullmatch(place) and is_set_in_every_run(program, change):
            severity = None if change.name in _COMPILERS else Severity.INFO
            yield _finding(disk.SHARED_CACHE, change, f"{place!r} {shared}", severity)
    builds = [(call, argument_of(call, "build_directory")) for call, _ in program.calls(*_EXTENSIONS)]
    caches = [(call, argument_of(call, "d", 0)) for call, _ in program.calls("torch.hub.set_dir")]
    caches += [(call, argument_of(call, "cache_dir")) for file in program.files for call in file.calls]
    places = [*((*each, None) for each in builds), *((*each, Severity.INFO) for each in caches)]
    for call, given, severity in places:
        place = None if given is None else text_by_default(program, given)
        if place and _SHARED.fullmatch(place):
            yield finding_at(disk.SHARED_CACHE, call, f"{place!r} {shared}", severity=severity)


def setting_findings(program: Program, change: ChangedVariable, value: str) -> Iterator[Finding]:
    """What a variable that is set to this harms in any run."""
    if harm := shared_facts.network_harm(change.name, value):
        yield _finding(nccl.FIGHTS_THE_PLUGIN, change, f"{value!r} {harm}", Severity.WARNING)
    if harm := shared_facts.why_obsolete(change.name, value, None):
        yield _finding(nccl.OBSOLETE_ENVIRONMENT, change, f"{value!r}: {harm}")
    yield from _debugging(program, change, value)


def _debugging(program: Program, change: ChangedVariable, value: str) -> Iterator[Finding]:
    harm = shared_facts.debugging_cost(change.name, value)
    if harm:
        late = _comes_too_late(program, change)
        severity = Severity.INFO if late or shared_facts.is_only_verbose(change.name, value) else None
        when = "is left behind the import of torch, before which it" if late else "in every run"
        yield _finding(nccl.DEBUGGING_ENVIRONMENT, change, f"{value!r} {when} {harm}", severity)


def _comes_too_late(program: Program, change: ChangedVariable) -> bool:
    """Whether torch has read the variable when it is set."""
    if change.name != "TORCH_DISTRIBUTED_DEBUG" or process_starts(program):
        return False
    line = getattr(change.runs, "lineno", 0)
    return any(
        (each.module or "").partition(".")[0] == "torch" and getattr(each.node, "lineno", line) < line
        for each in file_of(change.runs).imports
    )


def _surely_set(program: Program) -> Iterator[tuple[ChangedVariable, str]]:
    """The variables that every run sets to a text that is known, if only as the default of an option."""
    for change in changed_variables(program):
        value = constant_by_default(program, change.value)
        if value is not None and value.value not in (None, "") and is_set_in_every_run(program, change):
            yield change, str(value.value)
    files = program.analysis(ConfigurationFiles)
    for runs, table in _tables_put_into_environment(program) if files.are_read else ():
        if is_part_of_the_start(program, runs):
            for name, text, path in files.section(table):
                value_of_entry = like(table, ast.Constant(text))
                yield ChangedVariable(name, value_of_entry, runs, runs, written_in=str(path)), text


def _tables_put_into_environment(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Where the entries of a table that is not written in the program go into os.environ, and that table."""
    for call, _ in program.calls("os.environ.update"):
        owners = origins(program, call.func.value) if isinstance(call.func, ast.Attribute) else ()
        if any(isinstance(each, ast.Call) for each in owners):
            continue  # A copy for another process.
        for given in (*call.args, *(each.value for each in call.keywords if each.arg is None)):
            yield call, _table_behind(program, given)
    for file in program.mentioning("environ"):
        for each in file.statements.get(ast.AugAssign, ()):
            target = each.__dict__["target"]
            if isinstance(target, ast.Attribute) and ast.unparse(target) == "os.environ":
                yield each, _table_behind(program, each.__dict__["value"])
        for loop in file.statements.get(ast.For, ()):
            stores = [each for each in ast.walk(loop) if isinstance(each, ast.Subscript | ast.Call)]
            names = {getattr(each, "id", "") for each in getattr(loop.__dict__["target"], "elts", ())}
            if any(_sets_by_name(program, each, names) for each in stores):
                yield loop, _table_behind(program, loop.__dict__["iter"])


def _sets_by_name(program: Program, node: ast.Subscript | ast.Call, names: set[str]) -> bool:
    """Whether a variable is set whose name a loop's variable says: `os.environ[name] = str(value)`."""
    if isinstance(node, ast.Call):
        sets = program.qualified(node.func) in ("os.environ.setdefault", "os.putenv")
        return sets and bool(node.args) and last_name(node.args[0]) in names
    environ = isinstance(node.ctx, ast.Store) and program.value(node.value) == External("os.environ")
    return environ and last_name(node.slice) in names


def _table_behind(program: Program, table: ast.expr) -> ast.expr:
    """A table by the expression that made it, without `.items()`, also where each value becomes a text."""
    if isinstance(table, ast.DictComp):
        table = table.generators[0].iter
    while (
        isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute) and table.func.attr == "items"
    ):
        table = table.func.value
    made = origins(program, table)
    return made[0] if len(made) == 1 and made[0] is not None else table


def _meets_on_one_host(change: ChangedVariable, settings: list[tuple[ChangedVariable, str]]) -> bool:
    """Whether the same function sets the address at which the ranks meet to the host's own."""
    return any(
        other.name == "MASTER_ADDR"
        and value in ("localhost", "127.0.0.1", "::1")
        and scope_of(other.runs) is scope_of(change.runs)
        for other, value in settings
    )


def is_set_in_every_run(program: Program, change: ChangedVariable) -> bool:
    """Whether every process comes by a change, but for a test of whether the variable is set, and for tests
    of options by their defaults."""
    node = change.runs
    if change.only_unset:
        tests = (each for each in ancestors(node) if isinstance(each, ast.If))
        node = next((each for each in tests if _asks_for(program, each.test, change.name)), node)
    by_default = program.analysis(DefaultRun).truth
    runs = is_part_of_the_start(program, node) or surely_runs(program, node, known=by_default)
    return runs and is_taken(program, change.node)


def _asks_for(program: Program, test: ast.expr, name: str) -> bool:
    """Whether a test asks whether this variable is set, and for no other."""
    texts = {each.value for each in ast.walk(test) if isinstance(each, ast.Constant)}
    return mentions_environment(program, test) and texts <= {name, None, "", "0"}


def _as_string(change: ChangedVariable, kind: str) -> Fix | None:
    """`str(...)` around the value; not where nobody can say what was meant."""
    if kind in ("NoneType", "list", "tuple", "dict", "set", "bytes"):
        return None
    if change.value not in ast.walk(change.runs):
        return None  # In a dictionary that is written elsewhere and may serve others.
    return Fix(safe=True, edits=wrap_node(change.value, "str(", ")"))


def _finding(
    mode: FailureMode, change: ChangedVariable, harm: str, severity: Severity | None = None
) -> Finding:
    apart = statement_of(change.runs) is not statement_of(change.node)
    related = [related_at(change.runs, "here it is put into the environment")] if apart else []
    if change.written_in:
        related = [related_in_file(Path(change.written_in), change.name)]
    return finding_at(mode, change.node, f"{change.name}={harm}", severity=severity, related=related)


def _in_shell(
    mode: FailureMode, setting: ShellSetting, harm: str, severity: Severity | None = None
) -> Finding:
    return finding_in_shell(mode, setting, f"{setting.name}={setting.value!r}{harm}", severity=severity)


ENVIRONMENT_RULES = (
    network_is_left_to_the_plugin,
    settings_are_read_by_something,
    no_debugging_in_every_run,
    environment_holds_strings,
    caches_are_each_hosts_own,
)
"""The rules of this family, in the order in which their findings are shown."""


# Who the ranks are and where they meet: written into the script instead of asked of the launcher.


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

    So of the shell script beside the program that starts it on several hosts.

    Bad: `os.environ["MASTER_ADDR"] = "localhost"`. Good: no such line, or
    `os.environ.setdefault("MASTER_ADDR", "localhost")` for a start without launcher.
    Source: the sources of DIST006; torch/distributed/rendezvous.py.
    """
    yield from _addresses_in_shell(program)
    if not makes_a_group(program):
        return
    for change in _overwritten(program, "MASTER_ADDR"):
        address = constant_argument(program, change.value)
        if address is None or not isinstance(address.value, str) or _is_replaced(program, change):
            continue
        yield _address(program, change.node, f"MASTER_ADDR is fixed to {address.value!r}", address.value)
    for call, _ in program.calls(GROUP):
        given = argument_of(call, "init_method", 1)
        matched = None if given is None else _ADDRESS.fullmatch(_written_address(program, given))
        if given and matched and matched[0].startswith("tcp") and _is_for_several(program, call):
            yield _address(program, given, f"the ranks meet at {matched[0]}", matched[1])
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
    whose launchers set no port. Where the program spawns its processes itself it is informational.

    Bad: `os.environ["MASTER_PORT"] = "12355"`. Good: no such line, or `setdefault`.
    Source: torch/distributed/rendezvous.py (`_torchelastic_use_agent_store`); the sources of NCCL009.
    """
    own, others = is_for_one_host(program), has_another_launcher(program)
    if not makes_a_group(program) or (others and not own):
        return
    for change in () if others else _overwritten(program, "MASTER_PORT"):
        port = constant_argument(program, change.value)
        if port is None or port.value in (None, "", "0", 0):
            continue
        if own:
            harm, severity = "a second run on this machine finds it taken", Severity.INFO
        else:
            harm, severity = "torchrun listens on its own, and the ranks wait for one that nobody opens", None
        message = f"MASTER_PORT is fixed to {port.value}: {harm}"
        yield finding_at(nccl.PORT_IN_USE, change.node, message, severity=severity)
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


def _written_address(program: Program, given: ast.expr) -> str:
    """The address of a group where it is written, or the host's own by whatever port and options' default."""
    method, found = constant_argument(program, given), texts_by_default(program, given) - {"", "auto"}
    if is_for_one_host(program):
        found = {each for each in found if LOOPBACK.search(each or "")}
    begun = (found.pop() or "").rstrip(":") if len(found) == 1 else ""
    return str(method.value) if method else begun if LOOPBACK.search(begun) else ""


_STORE = "torch.distributed.TCPStore"


@finds(Stage.SCRIPT, nccl.PORT_IN_USE)
def listeners_have_ports_of_their_own(program: Program) -> Iterator[Finding]:
    """A process that listens on a port on which another one of the host listens already.

    On MASTER_PORT, which torchrun's agent or the group's own store holds; on the port of `init_method`; on
    one fixed port in every process of a host; or by a torchrun in the script that is given MASTER_PORT, or
    the port of another one beside it.

    Silent about clients (`is_master=False`), about port 0, below a `try` that may handle it, and about
    MASTER_PORT in a program that knows SLURM or MPI. Of one that starts its processes itself only where two
    groups of them run side by side, at an address that is written.

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
        if any(isinstance(each, ast.Try) and each.handlers for each in ancestors(call)):
            continue
        fixed = constant_argument(program, port)
        if "MASTER_PORT" in variables_in(program, port):
            if not others:
                yield finding_at(nccl.PORT_IN_USE, call, "torchrun's agent listens on MASTER_PORT already")
        elif ast.dump(port) in group_ports:
            yield finding_at(nccl.PORT_IN_USE, call, "rank 0 listens on this port already, for the group")
        elif (
            not alone
            and fixed is not None
            and str(fixed.value).strip("0").isdecimal()
            and surely_runs(program, call)
            and program.analysis(Participants).ranks_running(call) is True
        ):
            yield finding_at(nccl.PORT_IN_USE, call, f"every process would listen on port {fixed.value}")
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
        given = argument_of(call, "rank", 4)
        if given is not None and _is_local(program.value(given)):
            yield finding_at(
                distribution.LOCAL_RANK_AS_RANK,
                given,
                f"{file_of(given).source(given)}, the rank on the host, is given to init_process_group as "
                "the rank: several hosts claim the same ranks, and the start hangs",
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


def _is_local(value: object) -> bool:
    return isinstance(value, RankValue) and value.kind is RankKind.LOCAL and value.source != "spawn"


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


def _address(program: Program, node: ast.AST, what: str, host: str) -> Finding:
    if not LOOPBACK.fullmatch(host.strip("[]")):
        message, severity = f"{what}: on any other hosts nobody is there, and the start hangs", None
    elif is_for_one_host(program):
        harm = "as the program starts its processes itself, it can only run on one host"
        message, severity = f"{what}: {harm}", Severity.INFO
    else:
        message, severity = f"{what}: each of several hosts waits for itself alone", None
    return finding_at(distribution.HARD_CODED_TOPOLOGY, node, message, severity=severity)


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
    rank_is_the_global_one,
)
"""The rules of this family, in the order in which their findings are shown."""
