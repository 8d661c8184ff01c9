"""How process groups are made and ended, whether their backend is there, and what leaves a step alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import TypeGuard

from launcher.failure_modes import ddp, distribution
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    Known,
    argument_of,
    calculate_number,
    constant_argument,
    given_argument,
    has_star_arguments,
)
from launcher.program.index import (
    FunctionNode,
    Scope,
    ancestors,
    ancestors_in_function,
    class_of,
    file_of,
    last_name,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.process_environment import changed_variables, rank_starts, variables_in
from launcher.program.program import Program, imports_the_unknown, joining_calls
from launcher.program.ranks.guards import ends_block
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability, never_runs, surely_runs
from launcher.program.ranks.training_loops import (
    Loop,
    ends_with_an_error,
    is_forward,
    makes_ranks_agree,
    trains_within,
)
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.options import DefaultRun
from launcher.program.values import (
    DDP,
    INIT_PROCESS_GROUP,
    LIBRARY_TABLES,
    UNKNOWN,
    Constant,
    Defined,
    Instance,
    canonical_name,
    is_import_of,
)
from launcher.rules.script.data.downloads import fetches
from launcher.rules.script.data.loaders import Loaders, loops_over_something
from launcher.rules.script.default_values import default_constant, default_number
from launcher.rules.script.findings import (
    Places,
    ScriptSubject,
    finding_at,
    insert_after,
    name_of_torch_distributed,
    related_at,
)
from launcher.rules.script.starts.job_run import JobRun
from launcher.rules.script.starts.topology import asks_the_launcher

SHORT_TIMEOUT = 300
"""Seconds: what catalogue and tutorials call short, and a large checkpoint or download may take longer."""

SHORTEST_PAUSE = 30
"""Seconds: a pause that a rank may make without any work that only it does."""

ENDLESS_TIMEOUT = 86400
"""Seconds: a day, in which nothing is waited for that will come."""

_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")

_LONG = {
    **dict.fromkeys(("save_pretrained", "save_model", "save_state", "save_file", "save_checkpoint"), "saves"),
    **dict.fromkeys(("upload_file", "upload_fileobj", "upload_folder", "push_to_hub"), "uploads"),
    **dict.fromkeys(("snapshot_download", "hf_hub_download", "load_dataset"), "downloads"),
    **dict.fromkeys(("save_to_disk", "to_parquet", "savez", "savez_compressed", "memmap"), "writes data"),
}
"""The names of what libraries do for minutes, and the word for it."""
_SMALL = re.compile("token|process|config|extractor")
"""In the names of what is saved in no time."""


@finds(Stage.SCRIPT, ddp.FIND_UNUSED_LEFT_ON)
def unused_parameters_are_not_looked_for(program: Program) -> Iterator[Finding]:
    """`find_unused_parameters=True` written at the wrapper, as an option's default, or in a strategy's name.

    It walks the graph after every forward. Informational: only a run shows whether it is needed.

    Bad: `DDP(model, find_unused_parameters=True)`. Good: `DDP(model)`. Source: torch's DDP documentation.
    """
    wrappers = (
        DDP,
        "accelerate.DistributedDataParallelKwargs",
        "accelerate.utils.DistributedDataParallelKwargs",
    )
    strategies = ("lightning.pytorch.strategies.DDPStrategy", "lightning.fabric.strategies.DDPStrategy")
    named = ("lightning.pytorch.Trainer", "lightning.fabric.Fabric")
    for call, name in program.calls(*wrappers, *strategies, *named, "transformers.TrainingArguments"):
        given = argument_of(call, "find_unused_parameters", 7 if name == DDP else None)
        given = given or argument_of(call, "strategy" if name in named else "ddp_find_unused_parameters")
        told = getattr(default_constant(program, given), "value", None)
        if given is not None and (told is True or str(told).endswith("_find_unused_parameters_true")):
            yield finding_at(
                ddp.FIND_UNUSED_LEFT_ON,
                given,
                "find_unused_parameters=True walks the whole graph after every forward pass, on each rank "
                "and step: lost time where every parameter is used",
            )


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def groups_have_a_fitting_timeout(program: Program) -> Iterator[Finding]:
    """A process group without a timeout, or with one shorter than what one rank does while others wait.

    Without one it is informational, of an Accelerator where one rank works alone; so is one of a day or more.
    A timeout of at most 300 s is a warning where the program lets some ranks alone save, download or unpack:
    the others are in their next collective meanwhile.

    Bad: `init_process_group("nccl", timeout=timedelta(seconds=60))` and a `torch.save` under
    `if rank == 0:`. Good: `timeout=timedelta(minutes=30)`. Source: torch.distributed's documentation.
    """
    plain = [
        call
        for call, _ in program.calls("accelerate.Accelerator")
        if argument_of(call, "kwargs_handlers") is None and not has_star_arguments(call)
    ]
    if plain and any(True for _ in _work_of_some_ranks(program, program.analysis(Participants))):
        yield from map(_without_timeout, plain)
    for call, name in program.calls(*_WITH_TIMEOUT):
        given = _timeout_of(call, name) or _spread_timeout(program, call)
        is_open = has_star_arguments(call) and name == INIT_PROCESS_GROUP
        if given is None and name in _MAKING and not is_open:
            yield _without_timeout(call)
        if given is not None:
            yield from _unfitting(program, given, _seconds(program, given, partial(_default_number, program)))


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def timeouts_fit_the_job(subject: ScriptSubject) -> Iterator[Finding]:
    """A timeout that this job makes short, by a variable that it sets or leaves out.

    Only where nothing but the job tells the number, as in the other rule on timeouts.

    Bad: `timedelta(seconds=int(os.environ.get("PG_SECONDS", "20")))` in a job that does not set PG_SECONDS.
    Good: a default of half an hour. Source: torch.distributed's documentation.
    """
    program, run = subject.program, JobRun(subject)

    def known(node: ast.expr) -> float | None:
        value = run.value(node)
        text = "" if value is None or isinstance(value.value, bool) else str(value.value)
        return float(text) if text.replace(".", "", 1).isdecimal() else None

    for call, name in program.calls(*_WITH_TIMEOUT):
        given = _timeout_of(call, name)
        if given is not None and _seconds(program, given, partial(_default_number, program)) is None:
            yield from _unfitting(program, given, _seconds(program, given, known))


_MAKING = (
    INIT_PROCESS_GROUP,
    "deepspeed.init_distributed",
    "mmcv.runner.init_dist",
    "mmengine.dist.init_dist",
)
"""What makes the group of all ranks, and leaves it to the program how long it waits and when it ends."""

_WITH_TIMEOUT = {
    **dict.fromkeys(_MAKING),
    INIT_PROCESS_GROUP: 2,
    "accelerate.InitProcessGroupKwargs": None,
    "accelerate.utils.InitProcessGroupKwargs": None,
    "lightning.pytorch.strategies.DDPStrategy": None,
    "lightning.pytorch.strategies.FSDPStrategy": None,
    "lightning.pytorch.strategies.DeepSpeedStrategy": None,
    "lightning.fabric.strategies.DDPStrategy": None,
    "lightning.fabric.strategies.FSDPStrategy": None,
    "torch.distributed.new_group": 1,
    "torch.distributed.monitored_barrier": 1,
    "transformers.TrainingArguments": None,
    "transformers.Seq2SeqTrainingArguments": None,
}
"""What makes a group or waits in one, and the place of the timeout that it is given."""


def _timeout_of(call: ast.Call, name: str) -> ast.expr | None:
    """The timeout that a call is given, by its name in that library; not of a group of some ranks."""
    if name == "torch.distributed.new_group" and argument_of(call, "ranks", 0) is not None:
        return None
    keyword = "ddp_timeout" if name.startswith("transformers.") else "timeout"
    return argument_of(call, keyword, _WITH_TIMEOUT[name])


def _spread_timeout(program: Program, call: ast.Call) -> ast.expr | None:
    """What `**options` give a call as its timeout, where the program writes but one in a table."""
    if not any(each.arg is None for each in call.keywords):
        return None
    found = [
        value
        for file in (program.mentioning("timedelta") if has_star_arguments(call) else ())
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "timeout"
    ]
    return found[0] if len(found) == 1 else None


def _without_timeout(call: ast.Call) -> Finding:
    return finding_at(
        ddp.GROUP_TIMEOUT_UNSUITABLE,
        call,
        "no timeout is given: the default ends a rank that waits longer for another one's checkpoint or "
        "download, and is how long a real hang keeps the whole cluster",
        severity=Severity.INFO,
    )


def _unfitting(program: Program, given: ast.expr, seconds: float | None) -> Iterator[Finding]:
    if seconds is not None and seconds >= ENDLESS_TIMEOUT:
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds / 3600:g} hours, in effect none: a rank that hangs keeps the whole "
            "cluster until the job's own limit",
            severity=Severity.INFO,
        )
    if seconds is None or not 0 < seconds <= SHORT_TIMEOUT:
        return
    work = next(_work_of_some_ranks(program, program.analysis(Participants)), None)
    if work is None and seconds <= SHORTEST_PAUSE:
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds:g} s: a rank that is so late in one step, by a slow batch, a "
            "checkpoint or what its device compiles first, is taken for lost",
            severity=Severity.WARNING,
        )
    if work is not None:
        place, word, guard = work
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds:g} s, and {guard.described} alone {word} while the others wait in "
            "their next collective: where that takes longer, they are killed",
            related=[related_at(place, f"run by {guard.described} alone")],
        )


def _work_of_some_ranks(
    program: Program, participants: Participants
) -> Iterator[tuple[ast.expr, str, Guard]]:
    for place, word in _long_work(program):
        who = participants.ranks_running(place)
        if isinstance(who, Guard):
            yield place, word, who


def _long_work(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """What one rank may do for minutes while the others wait, and the word for it."""
    saving = program.calls("torch.save", "accelerate.Accelerator.save", "numpy.save")
    yield from ((call, "saves") for call, _ in saving)
    waiting = program.calls(*(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")))
    yield from ((call, "waits for another program") for call, _ in waiting)
    yield from ((call, "fetches or unpacks files") for call, _ in fetches(program))
    loaders = program.analysis(Loaders)
    for file in program.files:
        for call in (each for name in _LONG for each in file.calls_of.get(name, ())):
            own = isinstance(program.value(call.func), Defined)
            if not own and not _SMALL.search(ast.unparse(call.func).lower()):
                yield call, _LONG[last_name(call.func) or ""]
        for _, given, _ in loops_over_something(program, file):
            if loaders.resolved(loaders.unwrapped(given)):
                yield given, "goes through a data set"


def _seconds(program: Program, node: ast.expr, known: Known) -> float | None:
    """How long a `timedelta(...)` of known numbers is, or a number of seconds."""
    value = program.value(node)
    if isinstance(value, Constant):
        return calculate_number(program, node, known)
    if (
        not isinstance(value, Instance)
        or value.name != "datetime.timedelta"
        or has_star_arguments(value.call)
    ):
        return None
    given = dict(zip(_POSITIONS, value.call.args, strict=False))
    given.update({each.arg: each.value for each in value.call.keywords if each.arg is not None})
    total = 0.0
    for unit, amount in given.items():
        number = calculate_number(program, amount, known)
        if number is None:
            return None
        total += number * (timedelta(**{unit: 1}).total_seconds() if unit in _POSITIONS else 0)
    return total


def _default_number(program: Program, node: ast.expr) -> float | None:
    """By the program and its options alone; of variables the job tells."""
    return None if variables_in(program, node) else default_number(program, node)


@finds(Stage.SCRIPT, ddp.GROUP_NEVER_DESTROYED)
def groups_are_destroyed(program: Program) -> Iterator[Finding]:
    """A program that makes a process group and nowhere destroys it: informational.

    A rank that exits with operations pending may keep another one from exiting. What only runs with an option
    that is off by default does not destroy it. Silent about a function that the program never calls; such a
    one destroys nothing, and the end of a group within it is not its own.

    Bad: a `main()` that ends after training. Good: `dist.destroy_process_group()` as its last line. Source:
    torch.distributed's documentation, on shutdown.
    """
    if program.unread or _is_destroyed(program):
        return
    for call, _ in program.calls(*_MAKING):
        function = scope_of(call).function
        if function is not None and _is_never_called(program, function):
            continue
        yield finding_at(
            ddp.GROUP_NEVER_DESTROYED,
            call,
            "the process group that is made here is never destroyed: a rank that exits with operations "
            "pending may keep another one from exiting",
            fix=_destroy_group_at_end(program, call),
        )


_PROCESS_STARTERS = ("spawn", "start_processes", "Process", "notebook_launcher")
"""Calls by which other processes than this one make the group."""


def _destroy_group_at_end(program: Program, group: ast.Call) -> Fix | None:
    """The group's end as the last lines under the main guard, in a program of one process a rank."""
    if any(name in file.calls_of for file in program.files for name in _PROCESS_STARTERS):
        return None
    guard = program.entry.tree.body[-1]
    dist = name_of_torch_distributed(guard)
    if not _is_main_guard(guard) or dist is None:
        return None
    last = guard.body[-1]
    if not isinstance(last, ast.Expr) or statement_of(group) is last:
        return None
    step = "\t" if Places(program.entry).indentation(last).startswith("\t") else "    "
    edit = insert_after(last, f"if {dist}.is_initialized():", f"{step}{dist}.destroy_process_group()")
    return None if edit is None else Fix(False, (edit,))


def _is_main_guard(statement: ast.stmt) -> TypeGuard[ast.If]:
    return (
        isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test) and not statement.orelse
    )


def _is_destroyed(program: Program) -> bool:
    """Whether the program may come to the end of the group of all ranks: with the defaults that make one."""
    run = program.analysis(DefaultRun)
    for name in program.known_as({"destroy_process_group"}):
        for file in program.mentioning(name):
            for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
                call = parent_of(use)
                group = argument_of(call, "group", 0) if isinstance(call, ast.Call) else None
                if run.leaves_out(use) or _is_behind_an_error(use) or _is_never_come_to(program, use):
                    continue
                made = UNKNOWN if group is None else program.value(group)
                within = isinstance(made, Instance) and made.name in LIBRARY_TABLES["group_makers"]
                if not within and not program.analysis(Reachability).is_named_nowhere(use):
                    return True
    return any(f"{mark}destroy_process_group{mark}" in file.text for file in program.files for mark in "\"'")


def _is_behind_an_error(use: ast.expr) -> bool:
    """Whether something stands in an `except` block that raises again or ends the process."""
    handler = next((each for each in ancestors_in_function(use) if isinstance(each, ast.ExceptHandler)), None)
    return handler is not None and ends_block(handler.body) and not isinstance(handler.body[-1], ast.Return)


def _is_never_come_to(program: Program, use: ast.expr) -> bool:
    """Whether something stands in a function that is returned beside others, and that no caller uses: of
    `rank, stop = start()` nobody calls `stop`. Or in a method whose name stands nowhere else."""
    scope = scope_of(use).function
    function = None if scope is None else scope.node
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or function.name.startswith("__"):
        return False
    uses = [
        each
        for file in program.files
        for each in (*file.names.get(function.name, ()), *file.attributes.get(function.name, ()))
    ]
    if class_of(function) is not None:
        return not uses and not program.mentioning("getattr")
    outer = None if scope is None or scope.parent is None else scope.parent.node
    own = [each for each in uses if scope_of(each).holder_of(function.name) is scope_of(function)]
    if not own or not isinstance(outer, ast.FunctionDef):
        return False
    places = []
    for each in own:
        row = parent_of(each)
        if not isinstance(row, ast.Tuple) or not isinstance(parent_of(row), ast.Return):
            return False
        places.append(row.elts.index(each))
    for site in program.evaluation.callers.call_sites(outer) or ():
        statement = parent_of(site.call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        taken = target.elts[places[0]] if isinstance(target, ast.Tuple) else None
        if not isinstance(taken, ast.Name) or any(
            isinstance(each.ctx, ast.Load) and each not in own
            for each in file_of(site.call).names.get(taken.id, ())
        ):
            return False
    return True


def _is_never_called(program: Program, scope: Scope, deepest: int = 8) -> bool:
    """Whether a function stands in a module that another program may use, and this one calls it nowhere, or
    from functions alone that it never calls.
    """
    function = scope.node
    if not isinstance(function, FunctionNode) or file_of(function) is program.entry or deepest == 0:
        return False
    sites = program.evaluation.callers.call_sites(function)
    scopes = [scope_of(site.call).function for site in sites or ()]
    return sites is not None and all(
        each is not None and _is_never_called(program, each, deepest - 1) for each in scopes
    )


GROUP_RULES = (unused_parameters_are_not_looked_for, groups_have_a_fitting_timeout, groups_are_destroyed)


# Whether the backend that a process group is made with is there.

_BY_NAME = ("import_module", "__import__", "exec", "load_module")
"""Calls that may import anything."""


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def backends_are_imported(program: Program) -> Iterator[Finding]:
    """`init_process_group("smddp")` in a program that imports nothing of SMDDP.

    The backend is registered when its module is imported; without that torch knows of none by this name, and
    every process ends there. Silent where a library that nobody has read may import it.

    Bad: `import torch.distributed as dist` and `dist.init_process_group("smddp")`. Good: before it
    `import smdistributed.dataparallel.torch.torch_smddp`.
    Source: AWS's guide to SMDDP; torch/distributed/distributed_c10d.py (Backend._plugins).
    """
    if _may_register(program):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        backend = constant_argument(program, argument_of(call, "backend", 0))
        if not has_star_arguments(call) and backend is not None and str(backend.value).lower() == "smddp":
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                "nothing imports smdistributed.dataparallel.torch.torch_smddp, which registers the backend "
                "smddp: torch knows of none by this name, and every process ends here",
                remedy="Put `import smdistributed.dataparallel.torch.torch_smddp` before it.",
            )


def _may_register(program: Program) -> bool:
    """Whether anything that a program imports may register a backend."""
    return imports_the_unknown(program) or any(
        any(name in file.calls_of for name in _BY_NAME)
        or any((each.module or "").startswith("torch.sagemaker") for each in file.imports)
        for file in program.files
    )


BACKEND_RULES = (backends_are_imported,)


# Whether the processes that a job starts become one training.


STARTS_EACH_PROCESS = ("torchrun", "smddp", "smp", "mpi")
"""The strategies that start one process for each GPU, or as many as the job says."""


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET)
def trainer_knows_its_processes(subject: ScriptSubject) -> Iterator[Finding]:
    """A Lightning Trainer for one device, in a job of several processes: each runs it alone.

    As many trainings are paid for as there are processes, and each is whole.

    Only where `devices` is 1, if only of what is unpacked, and neither more hosts nor a strategy are given.

    Bad: `Trainer(devices=1)` with eight processes per host. Good: `Trainer(devices="auto", num_nodes=...)`.
    Source: the sources of DIST008.
    """
    if (subject.plan.world_size or 1) < 2:
        return
    program = subject.program
    run = JobRun(subject)
    for call, _ in program.calls("lightning.pytorch.Trainer"):
        devices, hosts = (given_argument(program, call, each) for each in ("devices", "num_nodes"))
        others = [given_argument(program, call, name) for name in ("strategy", "plugins")]
        one = devices is not None and run.value(devices) in (Constant(1), Constant("1"))
        if not one or (hosts is not None and run.value(hosts) != Constant(1)):
            continue
        if others == [None, None] and surely_runs(program, call, known=run.truth):
            yield finding_at(
                distribution.RANKS_NEVER_MET,
                call,
                f"the Trainer takes one device and knows of no others, and the job starts "
                f"{subject.plan.world_size} processes: each of them trains alone",
            )


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def ranks_make_a_group(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that trains in each of the job's processes, and in this job makes no group of them.

    Nothing calls init_process_group, or only under an option that the job does not give, with the variables
    of another launcher, or for one process alone: each trains a whole model for itself.

    Only where the script runs the backward pass itself, and imports only torch, numpy and a few others.
    Its own calls that are never come to are a warning besides other libraries that make no groups.

    Bad: `if args.distributed: init_process_group()` and a job without `distributed`. Good: the same under
    `if "RANK" in os.environ:`.
    Source: the sources of DIST008 and DIST005.
    """
    program, run = subject.program, JobRun(subject)
    steps = [call for file in program.files for call in file.calls_of.get("backward", ())]
    if run.strategy not in STARTS_EACH_PROCESS or (subject.plan.world_size or 1) < 2 or not steps:
        return
    started = f"the job starts {subject.plan.world_size} processes"
    alone = "each trains a whole model for itself"
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP)]
    for call in groups:
        if _size_of_group(run, call) == "1" and surely_runs(program, call, known=run.truth):
            message = f"{started}, and each makes a group of itself here: {alone}"
            starts = [related_at(each, "only here it would start others") for each in rank_starts(program)]
            yield finding_at(distribution.RANKS_NEVER_MET, call, message, related=starts)
    unknown = imports_the_unknown(program)
    if list(rank_starts(program)) or (unknown and imports_what_joins(program)):
        return
    joining = [call for call, _ in joining_calls(program)] if groups else []
    if joining and all(never_runs(program, call, run.truth) for call in joining):
        message = f"{started}, and in none of them this is come to, which would make a group: {alone}"
        severity = Severity.WARNING if unknown else None
        related = [related_at(each, "not handed over") for each in run.options_leaving_out(groups[0])]
        tests = (each for each in file_of(groups[0]).statements.get(ast.If, ()))
        beside = (each.__dict__["test"] for each in tests if scope_of(each) is scope_of(groups[0]))
        false = [each for each in beside if each.lineno < groups[0].lineno and run.truth(each) is False]
        related += [related_at(each, "not so in this job") for each in false[-3:]]
        yield finding_at(distribution.RANKS_NEVER_MET, groups[0], message, severity=severity, related=related)
    elif run.strategy == "torchrun" and not _may_make_a_group(program):
        message = f"{started}, and nothing makes a group of them (init_process_group): {alone}"
        yield finding_at(distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, steps[0], message)
        message = "without a group the ranks never meet: all hosts are paid for one training"
        yield finding_at(distribution.RANKS_NEVER_MET, steps[0], message, severity=Severity.INFO)


def imports_what_joins(program: Program) -> bool:
    """Whether a program imports what makes groups by itself, or has files that are not read.

    Of a library of which only some classes do so (a Trainer), one of them.
    """
    joining = LIBRARY_TABLES["joining_imports"]
    classes = {each.rpartition(".")[2] for each in joining if "." in each}
    partly = {each.partition(".")[0] for each in joining if "." in each}
    tables = ("trainer_imports", "launcher_imports")
    roots = {each.partition(".")[0] for table in tables for each in LIBRARY_TABLES[table]} - partly
    names = [canonical_name(each.module or "") for file in program.files for each in file.imports]
    return (
        bool(program.unread)
        or any(is_import_of(name, "joining_imports") or name.partition(".")[0] in roots for name in names)
        or any(not classes.isdisjoint(file.attributes) for file in program.files)
    )


def _size_of_group(run: JobRun, call: ast.Call) -> str:
    """How many a group has in this job, by its call or the variable that the program sets for it."""
    given = argument_of(call, "world_size", 3)
    asked = asks_the_launcher(run.program, call) and changed_variables(run.program)
    sizes = [each.value for each in asked or () if each.name == "WORLD_SIZE" and not each.only_unset]
    told = {getattr(run.value(each), "value", "") for each in (sizes if given is None else [given])}
    return str(told.pop()) if len(told) == 1 else ""


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET)
def failure_to_meet_ends_the_process(program: Program) -> Iterator[Finding]:
    """A group whose failure is caught by what does not end the process: the rank trains alone from there.

    The other ranks wait for it until their timeout, or all fail alike and each trains a whole model.

    Bad: `try: init_process_group("nccl")` with `except Exception: world_size = 1`. Good: to ask for the
    launcher's variables first (`if "RANK" in os.environ:`), and to let the failure end the process.
    Source: the sources of DIST008.
    """
    found: set[ast.ExceptHandler] = set()
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        found.update(_handlers_that_go_on(program, call, depth=3))
    for handler in sorted(found, key=lambda each: each.lineno):
        yield finding_at(
            distribution.RANKS_NEVER_MET,
            handler.type or handler,
            "a rank that could not join its group goes on from here without one: it trains a model for "
            "itself, and the ranks that did join wait for it",
            severity=Severity.WARNING,
            remedy="Let the exception end the process. Where the script shall also run alone, ask for the "
            'launcher\'s variables first: `if "RANK" in os.environ:`.',
        )


_BROAD = frozenset({"RuntimeError", "Exception", "BaseException"})
_PARTING = (ast.Break, ast.Return)


def _handlers_that_go_on(program: Program, call: ast.Call, depth: int) -> Iterator[ast.ExceptHandler]:
    """What catches the failure of a call, here or where its function is called, and neither fails nor tries
    again, in a statement that does not train as well."""
    inner: ast.AST = call
    for outer in ancestors(call):
        if isinstance(outer, ast.Try) and inner in outer.body and not _ends_or_trains(program, outer):
            for handler in outer.handlers:
                caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                is_broad = any(each is None or program.qualified(each) in _BROAD for each in caught)
                if is_broad and not _ends_or_retries(handler):
                    yield handler
        if isinstance(outer, ast.FunctionDef):
            for site in (depth and program.evaluation.callers.call_sites(outer)) or ():
                yield from _handlers_that_go_on(program, site.call, depth - 1)
            return
        inner = outer


def _ends_or_trains(program: Program, statement: ast.Try) -> bool:
    """Whether a statement trains as well, is tried until it succeeds, or the process ends behind it."""
    block = getattr(parent_of(statement), "body", [])
    left = (isinstance(node, _PARTING) for each in statement.handlers for node in ast.walk(each))
    if isinstance(parent_of(statement), ast.While) and not any(left):
        return True
    behind = block[block.index(statement) + 1 :] if statement in block else []
    return ends_with_an_error(behind) or trains_within(program, statement)


def _ends_or_retries(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, makes a group after all, or says by its result that there is none."""
    if ends_with_an_error(handler.body):
        return True
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    says_no = any(
        isinstance(node, ast.Return) and (node.value is None or ast.unparse(node.value) in ("None", "False"))
        for node in nodes
    )
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return says_no or any("init" in (last_name(each.func) or "") for each in calls)


def _may_make_a_group(program: Program) -> bool:
    """Whether anything in the program could make a process group; what cannot be read could."""
    joining = {each for each in LIBRARY_TABLES["joining_calls"] if is_import_of(each, "plain_imports")}
    makers = program.known_as({each.rpartition(".")[2] for each in joining}) | {"init_rpc"}
    used = {name for file in program.files for name in (*file.calls_of, *file.names, *file.attributes)}
    return bool(makers & used) or imports_the_unknown(program)


JOINING_RULES = (failure_to_meet_ends_the_process,)

MEETING_RULES = (trainer_knows_its_processes, ranks_make_a_group, timeouts_fit_the_job)
"""The rules of this family, which need a job."""


# Steps that a rank repeats or leaves when its memory is exhausted.


_MEMORY = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def exhausted_memory_ends_the_process(program: Program) -> Iterator[Finding]:
    """A step of a wrapped model that one rank leaves or repeats when its memory is exhausted.

    Memory is exhausted on one rank and not on the others, which are in the middle of their reduction.

    Bad: `except torch.cuda.OutOfMemoryError: torch.cuda.empty_cache(); continue`. Good: let it end the
    process, with a smaller batch for all ranks. Source: torch's notes on DDP.
    """
    for file in program.files:
        for statement in (*file.statements.get(ast.Try, ()), *file.statements.get(ast.TryStar, ())):
            assert isinstance(statement, ast.Try | ast.TryStar)
            going_on = [each for each in statement.handlers if _goes_on(program, each)]
            if not going_on:
                continue
            in_loop = any(isinstance(each, Loop) for each in ancestors_in_function(statement))
            if not _retries(program, statement, going_on[0]) and not (
                in_loop and trains_within(program, statement)
            ):
                continue
            yield finding_at(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                going_on[0].type or going_on[0],
                "a rank whose memory is exhausted goes on from here, while the others are in the middle of "
                "reducing this step's gradients: from then on they do not match",
                remedy="Let the exception end the process, and train with a smaller batch or gradient "
                "checkpointing on all ranks.",
            )


def _goes_on(program: Program, handler: ast.ExceptHandler) -> bool:
    """Whether a handler of exhausted memory comes to its end without an error."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {program.qualified(each) for each in caught if each is not None}
    if any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in ast.walk(handler)):
        return False
    body = handler.body
    if names & set(_MEMORY):
        return not ends_with_an_error(body)
    if not names & {"RuntimeError", "Exception"}:
        return False
    for number, statement in enumerate(body):
        test = ast.unparse(statement.test) if isinstance(statement, ast.If) else ""
        if isinstance(statement, ast.If) and "out of memory" in test.lower() and "not in" not in test:
            left = isinstance(statement.body[-1], ast.Continue | ast.Break | ast.Return)
            return not ends_with_an_error(statement.body) and (
                left or not ends_with_an_error(body[number + 1 :])
            )
    return False


def _retries(program: Program, statement: ast.Try | ast.TryStar, handler: ast.ExceptHandler) -> bool:
    """Whether a wrapped model's forward stands in a `try`, and again in its handler."""
    places = [
        any(
            isinstance(each, ast.Call) and is_forward(program, each)
            for part in block
            for each in ast.walk(part)
        )
        for block in (statement.body, handler.body)
    ]
    return all(places)


MEMORY_RULES = (exhausted_memory_ends_the_process,)
