"""How process groups are made and ended, whether their backend is there, and what leaves a step alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from launcher.failure_modes import ddp, distribution
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    given_argument,
    has_star_arguments,
    origins,
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
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import ChangedVariable, changed_variables
from launcher.program.process_starts import rank_starts
from launcher.program.program import Program, imports_the_unknown, joining_calls
from launcher.program.ranks.guards import ends_block
from launcher.program.ranks.reachability import Reachability, never_runs, surely_runs
from launcher.program.ranks.training_loops import (
    Loop,
    ends_with_an_error,
    is_forward,
    makes_ranks_agree,
    trains_within,
)
from launcher.program.surroundings.options import DefaultRun
from launcher.program.values import (
    DDP,
    INIT_PROCESS_GROUP,
    LIBRARY_TABLES,
    UNKNOWN,
    Constant,
    Instance,
    canonical_name,
    is_import_of,
)
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import (
    Places,
    ScriptSubject,
    finding_at,
    insert_after,
    name_of_torch_distributed,
    related_at,
)
from launcher.rules.script.starts.job_run import JobRun
from launcher.rules.script.starts.timeouts import GROUP_MAKERS
from launcher.rules.script.starts.topology import asks_the_launcher


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
    for call, _ in program.calls(*GROUP_MAKERS):
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


GROUP_RULES = (unused_parameters_are_not_looked_for, groups_are_destroyed)


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
    """A Lightning Trainer or Fabric for one device, in a job of several processes: each runs it alone.

    As many trainings are paid for as there are processes, and each is whole.

    Only where `devices` is 1, if only of what is unpacked, and neither more hosts nor a strategy are given.

    Bad: `Trainer(devices=1)`, `Fabric(devices=[local_rank])` with eight processes per host. Good:
    `Trainer(devices="auto", num_nodes=...)`.
    Source: the sources of DIST008.
    """
    if (subject.plan.world_size or 1) < 2:
        return
    program = subject.program
    run = JobRun(subject)
    for call, name in program.calls("lightning.pytorch.Trainer", "lightning.fabric.Fabric"):
        devices, hosts = (given_argument(program, call, each) for each in ("devices", "num_nodes"))
        others = [given_argument(program, call, name) for name in ("strategy", "plugins")]
        one = devices is not None and takes_one_device(run, devices)
        if not one or (hosts is not None and run.value(hosts) != Constant(1)):
            continue
        if others == [None, None] and surely_runs(program, call, known=run.truth):
            yield finding_at(
                distribution.RANKS_NEVER_MET,
                call,
                f"the {name.rpartition('.')[2]} takes one device and knows of no others, and the job starts "
                f"{subject.plan.world_size} processes: each of them trains alone",
            )


def takes_one_device(run: JobRun, devices: ast.expr) -> bool:
    """Whether Lightning is given one device, by their number or by a list with its index."""
    made = origins(run.program, devices)
    listed = all(isinstance(each, ast.List | ast.Tuple) and len(each.elts) == 1 for each in made)
    return listed or run.value(devices) in (Constant(1), Constant("1"))


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
    if _may_start_itself(program):
        return
    started = f"the job starts {subject.plan.world_size} processes"
    alone = "each trains a whole model for itself"
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP)]
    joining = [call for call, _ in joining_calls(program)] if groups else []
    for call in groups:
        others = (each for each in joining if each not in groups)
        is_sure = _size_of_group(run, call) == "1" and surely_runs(program, call, known=run.truth)
        if is_sure and not any(surely_runs(program, each, known=run.truth) for each in others):
            what_comes = _NO_STORE if _sets_own_port(run, call) else alone
            message = f"{started}, and each makes a group of itself here: {what_comes}"
            starts = [related_at(each, "only here it would start others") for each in rank_starts(program)]
            yield finding_at(distribution.RANKS_NEVER_MET, call, message, related=starts)
    unknown = imports_the_unknown(program)
    if list(rank_starts(program)) or (unknown and imports_what_joins(program)):
        return
    if joining and all(never_runs(program, call, run.truth) for call in joining):
        message = f"{started}, and in none of them this is come to, which would make a group: {alone}"
        severity = Severity.WARNING if unknown else None
        related = [related_at(each, "not handed over") for each in run.options_leaving_out(groups[0])]
        tests = (each for each in file_of(groups[0]).nodes(ast.If))
        beside = (each.test for each in tests if scope_of(each) is scope_of(groups[0]))
        false = [each for each in beside if each.lineno < groups[0].lineno and run.truth(each) is False]
        related += [related_at(each, "not so in this job") for each in false[-3:]]
        yield finding_at(distribution.RANKS_NEVER_MET, groups[0], message, severity=severity, related=related)
    elif run.strategy == "torchrun" and not _may_make_a_group(program):
        # DataParallel shows who was meant to take the GPUs of a host: one process for all of them.
        whole = [call for call, _ in program.calls("torch.nn.parallel.DataParallel")]
        yield from ranks_without_group((whole or steps)[0], subject.plan.world_size or 1)


def _may_start_itself(program: Program) -> bool:
    """Whether a program may run its own file again by a command, in which a rank makes the group."""
    own = ("sys.argv", "__file__", program.entry.path.name)
    return any(
        not {"Popen", "run", "call", "check_call", "check_output"}.isdisjoint(file.calls_of)
        and "sys.executable" in file.text
        and any(each in file.text for each in own)
        for file in program.files
    )


def ranks_without_group(trained: ast.Call, world_size: int, *, is_sure: bool = True) -> Iterator[Finding]:
    """Ranks that train, each by itself, in a program that never makes a group; a warning where it is not sure
    what a library does."""
    yield finding_at(
        distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
        trained,
        f"the job starts {world_size} processes, and nothing makes a group of them (init_process_group): "
        "each trains a whole model for itself",
        severity=None if is_sure else Severity.WARNING,
    )
    message = "without a group the ranks never meet: all hosts are paid for one training"
    yield finding_at(distribution.RANKS_NEVER_MET, trained, message, severity=Severity.INFO)


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


_NO_STORE = "under torchrun none of them opens a store at the port that this program chooses, and each waits"
"""What comes of an own port under torchrun, which sets TORCHELASTIC_USE_AGENT_STORE: `env://` then makes each
rank a client (torch/distributed/rendezvous.py, `_create_c10d_store`)."""


def _sets_own_port(run: JobRun, call: ast.Call) -> bool:
    """Whether a group asks torchrun's store, by its variables, and the program sets the port of another."""
    return run.strategy == "torchrun" and bool(_changes_behind(run, call, "MASTER_PORT"))


def _changes_behind(run: JobRun, call: ast.Call, name: str) -> list[ChangedVariable]:
    """Where the program itself sets a variable of the launcher, of those that a group asks for."""
    changes = changed_variables(run.program) if asks_the_launcher(run.program, call) else ()
    return [each for each in changes if each.name == name and not each.only_unset]


def _size_of_group(run: JobRun, call: ast.Call) -> str:
    """How many a group has in this job, by its call or the variable that the program sets for it."""
    given = argument_of(call, "world_size", 3)
    changes = _changes_behind(run, call, "WORLD_SIZE")
    sizes = [each.value for each in changes if not _is_set_after_failure(each.node)]
    told = {getattr(run.value(each), "value", "") for each in (sizes if given is None else [given])}
    return str(told.pop()) if len(told) == 1 else ""


def _is_set_after_failure(change: ast.AST) -> bool:
    return any(isinstance(each, ast.ExceptHandler) for each in ancestors_in_function(change))


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
            "itself, or ends where it needs the group, and the ranks that did join wait for it",
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
    left = (isinstance(node, _PARTING) for each in statement.handlers for node in walk(each))
    if isinstance(parent_of(statement), ast.While) and not any(left):
        return True
    behind = block[block.index(statement) + 1 :] if statement in block else []
    return ends_with_an_error(behind) or trains_within(program, statement)


def _ends_or_retries(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, makes a group after all, or says by its result that there is none."""
    if ends_with_an_error(handler.body):
        return True
    nodes = [node for statement in handler.body for node in walk(statement)]
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

MEETING_RULES = (trainer_knows_its_processes, ranks_make_a_group)
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
        for statement in (*file.nodes(ast.Try), *file.nodes(ast.TryStar)):
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
    if any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in walk(handler)):
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
        any(isinstance(each, ast.Call) and is_forward(program, each) for part in block for each in walk(part))
        for block in (statement.body, handler.body)
    ]
    return all(places)


MEMORY_RULES = (exhausted_memory_ends_the_process,)
