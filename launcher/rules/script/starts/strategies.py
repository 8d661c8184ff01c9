"""Whether a script is made for its job's launcher: who starts the ranks, and who tells them apart."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, origins
from launcher.program.index import BindingKind, ancestors, last_name, parent_of
from launcher.program.process_environment import changed_variables
from launcher.program.process_starts import (
    RANK_LAUNCHERS,
    Valued,
    count_on_host,
    process_starts,
    rank_starts,
    ranks_are_started_only_here,
    started_function,
    started_processes,
    ways_to,
)
from launcher.program.program import Program, imports_the_unknown, joining_calls
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability, never_runs, surely_runs
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.commands import torchrun_commands
from launcher.program.surroundings.options import option_of
from launcher.program.values import (
    INIT_PROCESS_GROUP,
    UNKNOWN,
    Constant,
    External,
    RankKind,
    RankValue,
    elements_of,
)
from launcher.rules.script.findings import ScriptSubject, finding_at, named_variable, related_at
from launcher.rules.script.process_groups import STARTS_EACH_PROCESS, imports_what_joins
from launcher.rules.script.starts.job_run import JobRun, given_option
from launcher.rules.script.starts.topology import asks_the_launcher


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, distribution.RANKS_NEVER_MET)
def script_fits_the_strategy(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that starts ranks under a launcher that does so, or is made for another launcher.

    Spawned processes take the same ranks and GPUs once more for every process of the launcher. What another
    launcher would have set, is not there. Where the host's number is no part of their ranks, the hosts never
    meet.

    So too where this job does not come to the start, and nothing else asks for what its launcher has set:
    each process goes on as one that is alone.

    Silent about processes that make no group, about variables that are read with a default, or in a `try`,
    and where something that is not read may join the others.

    Bad: `mp.spawn(train, nprocs=8)` with `strategy: torchrun`. Good: `train()`, with the rank of the
    environment.

    Source: the sources of DIST005.
    """
    program, run = subject.program, JobRun(subject)
    yield from _variables_that_lack(subject, run)
    if run.strategy not in STARTS_EACH_PROCESS or (subject.plan.processes_per_host or 1) < 2:
        return
    yield from _launchers_that_lack(subject, run)
    participants, reachable = program.analysis(Participants), program.analysis(Reachability).reaches

    def is_passed(node: ast.AST) -> bool:
        return never_runs(program, node, run.truth)

    counts = [*started_processes(program)]
    found = list[ast.Call]()
    commands = (*counts, *torchrun_commands(program))
    starts = dict.fromkeys(
        (*rank_starts(program), *(call for call, _ in commands), *_spawning_strategies(program))
    )
    for call in starts:
        if any(counted is call and program.value(count) == Constant(1) for counted, count in counts):
            continue  # A process in place of the one that the launcher has started.
        one = isinstance(participants.ranks_running(call), Guard)  # An evaluation by rank 0, say.
        only = (
            reachable(call) and not is_passed(call) and ranks_are_started_only_here(program, call, reachable)
        )
        if not one and (only or surely_runs(program, call, known=run.truth)):
            found.append(call)
            message = f"{_started(subject)}, and each would start its own here, on the same GPUs"
            related = _what_counts(program, call, counts)
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, call, message, related=related, remedy=_REMEDY
            )
            named = given_option(subject.job, "num_machines") is not None
            hosts = 1 if named else subject.job.resources.instance_count
            if hosts > 1 and _host_number_is_zero(program, call, run.value, is_passed):
                message = f"{hosts} hosts start the same ranks here: each trains a model for itself"
                yield finding_at(distribution.RANKS_NEVER_MET, call, message, severity=Severity.WARNING)

    groups = _groups_of_torch(program)
    own = next((each for each in rank_starts(program) if groups and reachable(each)), None)
    if own is not None and not found and not _may_ask_the_launcher(program, run):
        message = (
            f"{_started(subject)}, and the program asks for nothing that tells them apart: each would start "
            "its own here, or go on as one that is alone"
        )
        related = [*_what_counts(program, own, counts), related_at(groups[0], "the group is made here")]
        yield finding_at(
            distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, own, message, related=related, remedy=_REMEDY
        )


_SPAWNING = ("spawn", "fork", "forkserver")
_STRATEGIES = tuple(
    f"lightning.{part}.strategies.{name}"
    for part in ("pytorch", "fabric")
    for name in ("DDPStrategy", "DDPSpawnStrategy", "DDPSpawnShardedStrategy")
)


def _spawning_strategies(program: Program) -> Iterator[ast.Call]:
    """Lightning's strategies that spawn their ranks, whoever has started the process that makes them.

    Not one that is chosen by its name: Lightning 1 takes another one then, under torchrun.

    Source: lightning/pytorch/strategies/ddp.py (_configure_launcher)."""
    for call, name in program.calls(*_STRATEGIES):
        method = constant_argument(program, argument_of(call, "start_method"))
        if "Spawn" in name or (method is not None and method.value in _SPAWNING):
            yield call


_REMEDY = (
    "Call the function itself, with the ranks of the environment (RANK, LOCAL_RANK); or give the job the "
    "strategy none."
)


def _started(subject: ScriptSubject) -> str:
    processes, strategy = subject.plan.processes_per_host, subject.job.distribution.strategy
    return f"strategy {strategy} starts {processes} processes on each host"


def _groups_of_torch(program: Program) -> list[ast.Call]:
    return [call for call, _ in program.calls(INIT_PROCESS_GROUP)]


def _what_counts(
    program: Program, start: ast.Call, counts: Iterable[tuple[ast.Call, ast.expr]]
) -> list[Related]:
    """Where the option is declared that says how many processes a call starts."""
    given = next((number for call, number in counts if call is start), None)
    option = None if given is None else option_of(program, given)
    return [] if option is None else [related_at(option.node, "how many is declared here")]


_OF_TORCHRUN = ("RANK", "LOCAL_RANK")


def _may_ask_the_launcher(program: Program, run: JobRun) -> bool:
    """Whether this job may come to what asks for a rank that its launcher has set, if only unseen."""
    reachability = program.analysis(Reachability)

    def is_come_to(node: ast.AST) -> bool:
        return (
            reachability.reaches(node)
            and not reachability.is_named_nowhere(node)
            and not never_runs(program, node, run.truth)
        )

    if imports_the_unknown(program) and imports_what_joins(program):
        return True
    own = {each.name for each in changed_variables(program)}
    for call, name in joining_calls(program):
        by_launcher = name != INIT_PROCESS_GROUP or ("RANK" not in own and asks_the_launcher(program, call))
        if by_launcher and is_come_to(call):
            return True
    return any(is_come_to(each) for each in _readings_of_rank(program))


def _readings_of_rank(program: Program) -> Iterator[ast.AST]:
    """Where a variable by which torchrun tells the processes apart is asked for, by whatever way."""
    for file in (each for each in program.files if "RANK" in each.text):
        yield from (node for node, text in file.texts() if text in _OF_TORCHRUN and not _is_given(node))


def _is_given(name: ast.Constant) -> bool:
    """Whether a variable of this name is set, and not read: in the environment, or a table for it."""
    held = parent_of(name)
    if isinstance(held, ast.Call):
        return last_name(held.func) in ("setdefault", "putenv", "setenv")
    stored = isinstance(held, ast.Subscript) and not isinstance(held.ctx, ast.Load)
    return stored or isinstance(held, ast.Dict)


_LAUNCHED = {
    "horovod.torch.init": ("Horovod", "horovodrun or mpirun"),
    "byteps.torch.init": ("BytePS", "bpslaunch"),
}
"""Libraries that learn from a launcher of their own who they are: by what they join, and that launcher."""


def _launchers_that_lack(subject: ScriptSubject, run: JobRun) -> Iterator[Finding]:
    """Where a library that another launcher tells its ranks is started: each process is a world of one."""
    program, world = subject.program, subject.plan.world_size
    if run.strategy != "torchrun" or process_starts(program):
        return
    for call, name in program.calls(*_LAUNCHED):
        library, launcher = _LAUNCHED[name]
        prefixes = ("HOROVOD_", "OMPI_", "DMLC_", "PMI_")
        own = [*run.job.environment, *(each.name for each in changed_variables(program))]
        if any(each.startswith(prefixes) for each in own) or never_runs(program, call, run.truth):
            continue
        if not program.analysis(Reachability).reaches(call):
            continue
        message = (
            f"{library} asks {launcher} for its ranks, and strategy torchrun tells it none: each of the "
            f"{world} processes is a world of its own, on GPU 0, and trains a whole model for itself"
        )
        remedy = "Give the job the strategy mpi, or make the group with torch.distributed, and wrap in DDP."
        yield finding_at(distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, call, message, remedy=remedy)
        return


_ANY_GPUS = 1009
"""How many a host may have, in a calculation that shall come to them again."""


def _host_number_is_zero(
    program: Program, start: ast.Call, known: Valued, is_passed: Callable[[ast.AST], bool]
) -> bool:
    """Whether the ranks that a program starts have the same numbers on each host, by what somebody knows of
    the run and of what it passes over: those of the start itself, `node * gpus + index` with a node that is
    0, those of a world as large as the host, or of a single host."""
    if program.qualified(start.func) in RANK_LAUNCHERS:
        hosts = argument_of(start, "num_machines", 2)
        return hosts is None or all(
            _told_number(program, each, known) == 1 for each in origins(program, hosts)
        )
    target = started_function(program, start)
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP)] if target else []
    groups = [each for each in groups if True in ways_to(program, each, {target})]
    ranks = [argument_of(each, "rank", 4) for each in groups]
    values = {UNKNOWN if each is None else program.value(each) for each in ranks}
    worlds = [each for group in groups if (each := argument_of(group, "world_size", 3)) is not None]
    sizes = [made for each in worlds for made in origins(program, each) if not (made and is_passed(made))]
    counts = {None if each is None else count_on_host(program, each, _ANY_GPUS, known) for each in sizes}
    if values == {RankValue(RankKind.LOCAL, "spawn")} or (
        counts == {_ANY_GPUS} and len(worlds) == len(groups)
    ):
        return True
    made = [each for rank in ranks for each in ((None,) if rank is None else origins(program, rank))]
    return bool(made) and all(_is_of_first_host(program, each, known) for each in made)


def _is_of_first_host(program: Program, rank: ast.expr | None, known: Valued) -> bool:
    """`node * gpus + index`, where the number of the node surely is 0."""
    if not isinstance(rank, ast.BinOp) or not isinstance(rank.op, ast.Add):
        return False
    products = [each for each in (rank.left, rank.right) if isinstance(each, ast.BinOp)]
    factors = [side for each in products if isinstance(each.op, ast.Mult) for side in (each.left, each.right)]
    return any(
        all(_told_number(program, made, known) == 0 for made in origins(program, each)) for each in factors
    )


def _told_number(program: Program, node: ast.expr | None, known: Valued) -> object:
    if node is None:
        return None
    found, by_default = known(node), "detectron2.engine.default_argument_parser.parse_args.num_machines"
    return found.value if found else 1 if program.qualified(node) == by_default else None


def _variables_that_lack(subject: ScriptSubject, run: JobRun) -> Iterator[Finding]:
    """Where the script asks for a variable that this job's launcher does not set, and ends with an error."""
    program = subject.program
    if run.strategy not in ("torchrun", "mpi", "none") or process_starts(program):
        return
    for read in _reads_of_the_environment(program):
        keys = (named_variable(program, each) for each in origins(program, read.slice) if each is not None)
        name = next((each for each in keys if each is not None and run.lacks(each)), None)
        caught = any(isinstance(each, ast.Try) for each in ancestors(read))
        if name is not None and not caught and surely_runs(program, read, known=run.truth):
            message = f"strategy {run.strategy} sets no {name}: KeyError in every process"
            yield finding_at(distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, read, message)
            return
    for call, _ in program.calls(INIT_PROCESS_GROUP) if not imports_the_unknown(program) else ():
        backend = constant_argument(program, argument_of(call, "backend", 0))
        by_variables = backend in (None, Constant("nccl"), Constant("gloo")) and asks_the_launcher(
            program, call
        )
        if by_variables and run.lacks("RANK") and surely_runs(program, call, known=run.truth):
            message = f"strategy {run.strategy} sets no RANK, without which no group can be made"
            yield finding_at(distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, call, message)
            return


def _reads_of_the_environment(program: Program) -> Iterator[ast.Subscript]:
    for file in program.mentioning("environ"):
        for read in file.nodes(ast.Subscript):
            if isinstance(read.ctx, ast.Load):
                named = isinstance(read.value, ast.Name | ast.Attribute)
                if named and program.value(read.value) == External("os.environ"):
                    yield read


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def smddp_makes_the_group(subject: ScriptSubject) -> Iterator[Finding]:
    """A group with another backend in a job of SageMaker's data parallel library, which nothing imports.

    The library is started for nothing: gradients go the way of that backend.

    Silent where something that is not read may import it.

    Bad: `init_process_group("nccl")` with `strategy: smddp`. Good: `init_process_group("smddp")` behind
    `import smdistributed.dataparallel.torch.torch_smddp`.

    Source: the sources of DIST005.
    """
    program = subject.program
    if str(subject.job.distribution.strategy) != "smddp" or imports_the_unknown(program):
        return
    if any("smdistributed" in file.text for file in program.files):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        backend = constant_argument(program, argument_of(call, "backend", 0))
        if backend is not None and "nccl" in str(backend.value):
            message = (
                "strategy smddp is for the backend smddp, which nothing imports: this one is NCCL's alone"
            )
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                message,
                severity=Severity.WARNING,
                remedy="Put `import smdistributed.dataparallel.torch.torch_smddp` before it and take the "
                "backend smddp; or give the job the strategy torchrun.",
            )


_JOINING_BY_THEM = (
    *("accelerate.Accelerator", "accelerate.PartialState", "transformers.Trainer.train"),
    *("lightning.pytorch.Trainer", "lightning.fabric.Fabric"),
)
"""What makes a group where the launcher's variables are there, and else goes on alone."""


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET)
def launchers_variables_stay(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that takes away the variables by which its launcher tells the processes who they are.

    Accelerate and its like then go on as one process that is alone: each trains a whole model for itself.

    Only where every process comes by it, and such a library is used.

    Bad: `os.environ.pop("RANK", None)` before `Accelerator()`. Good: no such line.

    Source: the sources of DIST008.
    """
    program, run = subject.program, JobRun(subject)
    alone = run.strategy != "torchrun" or (subject.plan.world_size or 1) < 2
    if alone or not any(program.calls(*_JOINING_BY_THEM)):
        return
    for place, names in _removed_variables(program):
        if names & {"RANK", "WORLD_SIZE"} and surely_runs(program, place, known=run.truth):
            message = (
                f"the variables of the launcher are taken away here: each of the {subject.plan.world_size} "
                "processes goes on as one that is alone, and trains a whole model for itself"
            )
            yield finding_at(distribution.RANKS_NEVER_MET, place, message)
            return


def _removed_variables(program: Program) -> Iterator[tuple[ast.AST, set[str]]]:
    """Where variables are taken out of os.environ, and which."""
    for call, name in program.calls("os.environ.pop", "os.environ.clear", "os.unsetenv"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is not None and any(isinstance(each, ast.Call) for each in origins(program, owner)):
            continue  # Out of a copy for another process.
        yield call, set(_OF_TORCHRUN) if name == "os.environ.clear" else _names_in(program, call.args[:1])
    for file in program.mentioning("environ"):
        for statement in file.nodes(ast.Delete):
            deleted = [each for each in statement.targets if isinstance(each, ast.Subscript)]
            own = [each.slice for each in deleted if last_name(each.value) == "environ"]
            yield statement, _names_in(program, own)


def _names_in(program: Program, keys: Iterable[ast.expr]) -> set[str]:
    """The texts that keys may be, if by a loop over a list of them that is written."""
    found = set[str]()
    for key in keys:
        bindings = program.evaluation.sources(key) if isinstance(key, ast.Name) else []
        looped = [
            each.value for each in bindings if each.kind is BindingKind.LOOPED and each.value is not None
        ]
        listed = (elements_of(program.value(each), program.value, each) or () for each in looped)
        for each in (key, *(one for some in listed for one in some)):
            value = constant_argument(program, each)
            found |= {str(value.value)} if value is not None else set()
    return found


STRATEGY_RULES = (script_fits_the_strategy, smddp_makes_the_group, launchers_variables_stay)
"""The rules of this family, which need a job."""
