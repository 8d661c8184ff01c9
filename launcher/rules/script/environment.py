"""What a script sets in os.environ, and the caches that it names.

Settings that fight EFA, that nobody reads, or that are no strings; caches that hosts share.
Without a job only what is harmful wherever it runs; what depends on the instance type or on the version of
torch is a matter of the rules that know the job.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from launcher.failure_modes import disk, nccl, training_script
from launcher.failure_modes.model import FailureMode, Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    origins,
)
from launcher.program.index import ancestors, file_of, last_name, scope_of, statement_of
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import (
    ChangedVariable,
    changed_variables,
    mentions_environment,
    plain_type_of,
    variables_in,
    variables_of_ranks,
)
from launcher.program.process_starts import process_starts
from launcher.program.program import Program
from launcher.program.ranks.reachability import surely_runs
from launcher.program.surroundings.options import (
    DefaultRun,
    is_taken,
    text_by_default,
)
from launcher.program.surroundings.shell_starts import ShellSetting, ShellStarts
from launcher.program.values import (
    LIBRARY_TABLES,
    RANK_VARIABLES,
    Constant,
    External,
    like,
)
from launcher.rules import shared_facts
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import (
    finding_at,
    finding_in_shell,
    related_at,
    related_in_file,
    wrap_node,
)
from launcher.rules.script.starts.topology import is_part_of_the_start

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
    for change in variables_of_ranks(program):
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
    is that of an entry of a configuration, which a run may change, and where it is None as a job does not set
    the variable, or give the option, that it is taken from. Nor of what only a run without a launcher needs,
    `os.environ.setdefault("RANK", 0)`.

    Bad: `os.environ["GPU_NUM_DEVICES"] = 4`. Good: `os.environ["GPU_NUM_DEVICES"] = "4"`.
    Source: Python's os.environ; the bad line stands in AWS's guide to Training Compiler.
    """
    files = program.analysis(ConfigurationFiles)
    for runs, table in _tables_put_into_environment(program) if files.are_read else ():
        if _is_put_as_it_is(runs):
            yield from _entries_that_are_no_strings(files, runs, table)
    for change in changed_variables(program):
        if change.as_text or _is_for_one_process(program, change):
            continue
        known = plain_type_of(program, change.value)
        kind = known or _type_of_entry(program, change.value) or _none_of_job(program, change)
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


def _is_for_one_process(program: Program, change: ChangedVariable) -> bool:
    """Whether a variable is set only where no launcher has done so."""
    of_launcher = change.name in RANK_VARIABLES or change.name in ("MASTER_ADDR", "MASTER_PORT")
    return change.only_unset and of_launcher and not process_starts(program)


def _none_of_job(program: Program, change: ChangedVariable) -> str | None:
    """The type of None where every run of a job comes to a variable, and what it is set to is not given by
    the job: another variable without a default, or an option."""
    if program.variables is None or default_constant(program, change.value) != Constant(None):
        return None
    given_by_launchers = tuple(LIBRARY_TABLES["launcher_variables"])
    if any(each.startswith(given_by_launchers) for each in variables_in(program, change.value)):
        return None
    return "NoneType" if is_set_in_every_run(program, change) else None


def _is_put_as_it_is(runs: ast.AST) -> bool:
    """Whether the entries of a table go into os.environ with nothing that makes texts of them."""
    called = (last_name(each.func) for each in walk(runs) if isinstance(each, ast.Call))
    changed = (ast.DictComp, ast.JoinedStr, ast.If, ast.IfExp, ast.Try, ast.GeneratorExp)
    is_plain = not any(isinstance(each, changed) for each in walk(runs))
    return is_plain and set(called) <= {"update", "items", "setdefault", "putenv", "get"}


def _entries_that_are_no_strings(
    files: ConfigurationFiles, runs: ast.AST, table: ast.expr
) -> Iterator[Finding]:
    for name, value, path in files.section(table):
        if not isinstance(value, str):
            kind = type(value).__name__
            yield finding_at(
                training_script.ENVIRONMENT_VALUE_NOT_STRING,
                runs,
                f"{name} is {value} in {path.name}, which is no string: TypeError (str expected, not {kind}) "
                "on every rank",
                remedy="Write it in quotes there, or str(value) here.",
                severity=Severity.WARNING,
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
    for change in (each for each in changed_variables(program) if each.name in _COMPILERS | _HUBS):
        place = text_by_default(program, change.value)
        if place and _SHARED.fullmatch(place) and is_set_in_every_run(program, change):
            severity = None if change.name in _COMPILERS else Severity.INFO
            yield _finding(disk.SHARED_CACHE, change, f"{place!r} {shared}", severity)
    for change, place in _set_by_files(program):
        if change.name in _COMPILERS | _HUBS and _SHARED.fullmatch(place):
            severity = None if change.name in _COMPILERS else Severity.INFO
            yield _finding(disk.SHARED_CACHE, change, f"{place!r} {shared}", severity)
    yield from _caches_of_the_job(program, shared)
    builds = [(call, argument_of(call, "build_directory")) for call, _ in program.calls(*_EXTENSIONS)]
    caches = [(call, argument_of(call, "d", 0)) for call, _ in program.calls("torch.hub.set_dir")]
    caching = (call for file in program.files for call in file.calls_giving("cache_dir"))
    caches += [(call, argument_of(call, "cache_dir")) for call in caching]
    places = [*((*each, None) for each in builds), *((*each, Severity.INFO) for each in caches)]
    for call, given, severity in places:
        place = None if given is None else text_by_default(program, given)
        if place and _SHARED.fullmatch(place):
            yield finding_at(disk.SHARED_CACHE, call, f"{place!r} {shared}", severity=severity)


_COMPILING = {
    "TRITON_CACHE_DIR": ("torch.compile", "triton.jit"),
    "TRITON_HOME": ("torch.compile", "triton.jit"),
    "TORCHINDUCTOR_CACHE_DIR": ("torch.compile",),
    "TORCH_EXTENSIONS_DIR": (*_EXTENSIONS, "deepspeed.initialize"),
    "NUMBA_CACHE_DIR": ("numba.njit", "numba.jit"),
}
"""What makes the files that are kept below the folder of each variable."""


def _caches_of_the_job(program: Program, shared: str) -> Iterator[Finding]:
    """Where a program compiles what the environment of its job has it keep on a file system of all hosts."""
    changed = {each.name for each in changed_variables(program)} if program.variables else set[str]()
    for variable, place in (program.variables or {}).items():
        if variable not in _COMPILING or variable in changed or not _SHARED.fullmatch(place):
            continue
        wanted = _COMPILING[variable]
        uses = [
            use
            for last in {each.rpartition(".")[2] for each in wanted}
            for file in program.mentioning(last)
            for use in (*file.attributes.get(last, ()), *file.names.get(last, ()))
            if program.qualified(use) in wanted
        ]
        if uses:
            yield finding_at(
                disk.SHARED_CACHE,
                min(uses, key=lambda each: (str(file_of(each).path), each.lineno)),
                f"what is compiled here is kept in {place!r} by the job's {variable}, which {shared}",
            )


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
    for change in variables_of_ranks(program):
        value = default_constant(program, change.value)
        if value is not None and value.value not in (None, "") and is_set_in_every_run(program, change):
            yield change, str(value.value)
    yield from _set_by_files(program)


def _set_by_files(program: Program) -> Iterator[tuple[ChangedVariable, str]]:
    """The variables that every run sets to the entries of a configuration file, with the values there."""
    files = program.analysis(ConfigurationFiles)
    for runs, table in _tables_put_into_environment(program) if files.are_read else ():
        if is_part_of_the_start(program, runs):
            for name, entry, path in files.section(table):
                shown = like(table, ast.Constant(str(entry)))
                yield ChangedVariable(name, shown, runs, runs, written_in=str(path)), str(entry)


def _tables_put_into_environment(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Where the entries of a table that is not written in the program go into os.environ, and that table."""
    for call, _ in program.calls("os.environ.update"):
        owners = origins(program, call.func.value) if isinstance(call.func, ast.Attribute) else ()
        if any(isinstance(each, ast.Call) for each in owners):
            continue  # A copy for another process.
        for given in (*call.args, *(each.value for each in call.keywords if each.arg is None)):
            yield call, _table_behind(program, given)
    for file in program.mentioning("environ"):
        for each in file.nodes(ast.AugAssign):
            if isinstance(each.target, ast.Attribute) and ast.unparse(each.target) == "os.environ":
                yield each, _table_behind(program, each.value)
        for loop in file.nodes(ast.For):
            stores = [each for each in walk(loop) if isinstance(each, ast.Subscript | ast.Call)]
            names = {getattr(each, "id", "") for each in getattr(loop.target, "elts", ())}
            if any(_sets_by_name(program, each, names) for each in stores):
                yield loop, _table_behind(program, loop.iter)


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
        # `parser.items("environment")` gives a section of a file.
        owner = table.func.value
        table = like(table, ast.Subscript(owner, table.args[0], ast.Load())) if table.args else owner
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
    texts = {each.value for each in walk(test) if isinstance(each, ast.Constant)}
    return mentions_environment(program, test) and texts <= {name, None, "", "0"}


def _as_string(change: ChangedVariable, kind: str) -> Fix | None:
    """`str(...)` around the value; not where nobody can say what was meant."""
    if kind in ("NoneType", "list", "tuple", "dict", "set", "bytes"):
        return None
    if change.value not in walk(change.runs):
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
