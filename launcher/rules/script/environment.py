"""What a script puts into os.environ: settings that fight EFA, that nobody reads, or that are no strings.

Without a job only what is harmful wherever it runs; what depends on the instance type or on the version of
torch is a matter of the rules that know the job.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import disk, nccl, training_script
from launcher.failure_modes.model import FailureMode, Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules import variables
from launcher.rules.script.finding import found
from launcher.rules.script.topology import is_part_of_the_start
from launcher.scripts.changed_variables import ChangedVariable, changed_variables, mentions_environment
from launcher.scripts.edits import wrapped
from launcher.scripts.launching import spawns
from launcher.scripts.plain_types import type_of
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, file_of, scope_of
from launcher.scripts.values import Constant

_COMPILERS = frozenset(
    {
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "CUDA_CACHE_PATH",
        "NUMBA_CACHE_DIR",
    }
)
"""Where compilers keep what they made, by renaming and deleting files while others read them."""

_HUBS = frozenset({"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME"})
"""Where downloads from model hubs are kept, under locks that not every file system has."""

_SHARED = frozenset({"fsx", "efs", "lustre", "nfs", "gpfs"})
"""What people call the folders at which they mount network file systems."""


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
        harm = _network_harm(change.name, value)
        if harm:
            yield _finding(nccl.FIGHTS_THE_PLUGIN, change, f"{value!r} {harm}", Severity.WARNING)


@finds(Stage.SCRIPT, nccl.OBSOLETE_ENVIRONMENT)
def settings_are_read_by_something(program: Program) -> Iterator[Finding]:
    """A script that sets a variable which nothing reads, or which does something else than it was meant to.

    What it was to change stays as it is, and nothing says so.

    Silent about names that changed with torch 2.2: which version runs is known to the job alone.

    Bad: `os.environ["NCCL_TIMEOUT"] = "3600"`. Good: `init_process_group(timeout=timedelta(hours=1))`.

    Source: the sources of NCCL002, and the searched repositories that `launcher/rules/variables.py` names.
    """
    for change, value in _surely_set(program):
        harm = variables.obsolete(change.name, value, None)
        if harm:
            yield _finding(nccl.OBSOLETE_ENVIRONMENT, change, f"{value!r}: {harm}")


@finds(Stage.SCRIPT, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_every_run(program: Program) -> Iterator[Finding]:
    """A script that switches debugging on for every run.

    Kernels that wait for each other, or logs of every call, are paid for on all hosts.

    Silent under a test, such as `if args.debug:`, and about TORCH_DISTRIBUTED_DEBUG behind `import torch`,
    which has read it by then; a program that spawns its ranks hands it on to them.

    Bad: `os.environ["CUDA_LAUNCH_BLOCKING"] = "1"` at the top. Good: `profile: debug` in the job file, or the
    variable in the shell for the one run that needs it.

    Source: the sources of NCCL003; torch/distributed/__init__.py, which calls set_debug_level_from_env.
    """
    for change, value in _surely_set(program):
        harm = variables.debugging(change.name, value)
        if harm and not _comes_too_late(program, change):
            verbose = variables.is_only_verbose(change.name, value)
            severity = Severity.INFO if verbose else None
            yield _finding(nccl.DEBUGGING_ENVIRONMENT, change, f"{value!r} in every run {harm}", severity)


@finds(Stage.SCRIPT, training_script.ENVIRONMENT_VALUE_NOT_STRING)
def environment_holds_strings(program: Program) -> Iterator[Finding]:
    """A value that is surely no string, put into os.environ in any way: TypeError on every rank.

    Where a value's type is not sure, such as an option without a `type`, nothing is said.

    Bad: `os.environ["GPU_NUM_DEVICES"] = 4`. Good: `os.environ["GPU_NUM_DEVICES"] = "4"`.

    Source: Python's os.environ; the bad line stands in AWS's guide to Training Compiler.
    """
    for change in changed_variables(program):
        kind = None if change.as_text else type_of(program, change.value)
        if kind is None or kind == "str":
            continue
        written = file_of(change.value).source(change.value)
        yield found(
            training_script.ENVIRONMENT_VALUE_NOT_STRING,
            change.node,
            f"{change.name} is set to {written}, which is no string: TypeError (str expected, not "
            f"{kind}) on every rank",
            fix=_as_string(change, kind),
        )


@finds(Stage.SCRIPT, disk.SHARED_CACHE)
def caches_are_each_hosts_own(program: Program) -> Iterator[Finding]:
    """A compiler's or hub's cache on a file system that hosts share.

    Ranks of several hosts write, rename and delete the same files there: 'Stale file handle', torn entries,
    and a compilation that waits for another host's lock. For a hub's cache, which is only downloaded into,
    this is informational.

    A folder counts as shared by its name alone: fsx, efs, lustre, nfs or gpfs at the root or below /mnt.

    Bad: `os.environ["TRITON_CACHE_DIR"] = "/fsx/triton"`. Good: `"/tmp/triton"`, or a folder for each host.

    Source: the sources of DISK002.
    """
    for change, value in _surely_set(program):
        if change.name in _COMPILERS | _HUBS and _is_shared(value):
            yield _finding(
                disk.SHARED_CACHE,
                change,
                f"{value!r} is on a file system that the hosts share: their ranks write and delete each "
                "other's entries",
                None if change.name in _COMPILERS else Severity.INFO,
            )


def _comes_too_late(program: Program, change: ChangedVariable) -> bool:
    """Whether torch has read the variable when it is set."""
    if change.name != "TORCH_DISTRIBUTED_DEBUG" or spawns(program):
        return False
    line = getattr(change.node, "lineno", 0)
    return any(
        (each.module or "").partition(".")[0] == "torch" and getattr(each.node, "lineno", line) < line
        for each in file_of(change.node).imports
    )


def _surely_set(program: Program) -> Iterator[tuple[ChangedVariable, str]]:
    """The variables that every run sets to a text that is known."""
    for change in changed_variables(program):
        value = program.value(change.value)
        if isinstance(value, Constant) and value.value is not None and _counts(program, change):
            yield change, str(value.value)


def _meets_on_one_host(change: ChangedVariable, settings: list[tuple[ChangedVariable, str]]) -> bool:
    """Whether the same function sets the address at which the ranks meet to the host's own."""
    return any(
        other.name == "MASTER_ADDR"
        and value in ("localhost", "127.0.0.1", "::1")
        and scope_of(other.node) is scope_of(change.node)
        for other, value in settings
    )


def _counts(program: Program, change: ChangedVariable) -> bool:
    """Whether every process comes by a change, but for a test of whether the variable is set."""
    node = change.node
    if change.only_unset:
        tests = (each for each in ancestors(node) if isinstance(each, ast.If))
        node = next((each for each in tests if mentions_environment(program, each.test)), node)
    return is_part_of_the_start(program, node)


def _network_harm(name: str, value: str) -> str | None:
    value = value.strip()
    if name == "FI_PROVIDER":
        return (
            "turns EFA off: messages between hosts go over TCP" if variables.leaves_efa_out(value) else None
        )
    if name == "NCCL_NET" and value.lower() == "socket":
        return "turns EFA off: NCCL uses TCP sockets"
    if name == "NCCL_SOCKET_IFNAME":
        return variables.interface_harm(value)
    advice = variables.advice_on(name)
    if advice is None or advice.with_efa_only or value in advice.harmless:
        return None
    return None if (name, value.lower()) == ("NCCL_PROTO", "simple") else advice.harm


def _is_shared(path: str) -> bool:
    parts = [part.lower() for part in path.split("/") if part]
    if not path.startswith("/") or not parts:
        return False
    return parts[0] in _SHARED or (parts[0] == "mnt" and len(parts) > 1 and parts[1] in _SHARED)


def _as_string(change: ChangedVariable, kind: str) -> Fix | None:
    """`str(...)` around the value; not where nobody can say what was meant."""
    if kind in ("NoneType", "list", "tuple", "dict", "set", "bytes"):
        return None
    if isinstance(change.node, ast.stmt | ast.Call) and change.value not in ast.walk(change.node):
        return None  # In a dictionary that is written elsewhere and may serve others.
    return Fix(safe=True, edits=wrapped(change.value, "str(", ")"))


def _finding(
    mode: FailureMode, change: ChangedVariable, harm: str, severity: Severity | None = None
) -> Finding:
    return found(mode, change.node, f"{change.name}={harm}", severity=severity)


RULES = (
    network_is_left_to_the_plugin,
    settings_are_read_by_something,
    no_debugging_in_every_run,
    environment_holds_strings,
    caches_are_each_hosts_own,
)
"""The rules of this family, in the order in which their findings are shown."""
