"""What only script and job together show: the strategy, the instance type, the version of torch.

The planning is imported where it is asked, so that the lint of a script alone does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import distribution, nccl, training_compiler
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules import variables
from launcher.rules.script.finding import found
from launcher.rules.script.plain_libraries import imports_the_unknown
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.arguments import argument, constant, is_open
from launcher.scripts.certainty import surely_runs
from launcher.scripts.changed_variables import changed_variables
from launcher.scripts.program import Program
from launcher.scripts.values import Constant

_STARTS_EACH_PROCESS = ("torchrun", "smddp", "smp", "mpi")
"""The strategies that start one process for each GPU, or as many as the job says."""

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def script_fits_the_strategy(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that starts processes under a launcher that does so, or that never makes a group of them.

    Spawned processes take the same ranks and GPUs once more for every process of the launcher; without a
    group each process trains a whole model for itself.

    The group is missed only where the script runs a backward pass, and imports nothing that could make one:
    only torch, numpy and a few others.

    Bad: `mp.spawn(train, nprocs=8)` with `strategy: torchrun`. Good: `train()`, with the rank of the
    environment.

    Source: the sources of DIST005.
    """
    program, job = subject.program, subject.job
    strategy = str(job.distribution.strategy)
    if strategy not in _STARTS_EACH_PROCESS or (subject.plan.world_size or 1) < 2:
        return
    spawned = [call for call, _ in program.calls(*_SPAWNS)]
    for call in spawned:
        if surely_runs(program, call) and (subject.plan.processes_per_host or 1) > 1:
            yield found(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                f"strategy {strategy} starts {subject.plan.processes_per_host} processes on each host, and "
                "each would start its own here, on the same GPUs",
            )
    if strategy == "torchrun" and not spawned and _trains(program) and not _may_make_a_group(program):
        yield found(
            distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
            next(call for file in program.files for call in file.calls_of.get("backward", ())),
            f"{subject.plan.world_size} processes are started, and nothing makes a group of them "
            "(init_process_group): each trains a whole model for itself",
        )


@finds(Stage.SCRIPT, training_compiler.NO_MP_FN)
def entry_point_has_a_worker_function(subject: ScriptSubject) -> Iterator[Finding]:
    """A script without `_mp_fn`, which Training Compiler's launcher imports and calls for each worker.

    Without it every worker ends as soon as it starts. Only with `strategy: torch_xla`.

    Bad: a script that only has `main()`. Good: `def _mp_fn(index): main()`.

    Source: the sources of XLA002.
    """
    entry = subject.program.entry
    if str(subject.job.distribution.strategy) != "torch_xla":
        return
    if "_mp_fn" not in entry.module.bindings and not entry.stars:
        yield found(
            training_compiler.NO_MP_FN,
            entry.tree,
            "the launcher of torch_xla imports the script and calls _mp_fn(index), which it does not have",
        )


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET)
def trainer_knows_its_processes(subject: ScriptSubject) -> Iterator[Finding]:
    """A Lightning Trainer for one device, in a job of several processes: each runs it alone.

    As many trainings are paid for as there are processes, and each is whole.

    Only where `devices` is a literal 1 and neither `num_nodes` nor a strategy is given.

    Bad: `Trainer(devices=1)` with eight processes per host. Good: `Trainer(devices="auto", num_nodes=...)`.

    Source: the sources of DIST008.
    """
    if (subject.plan.world_size or 1) < 2:
        return
    program = subject.program
    for call, _ in program.calls("lightning.pytorch.Trainer"):
        devices = constant(program, argument(call, "devices"))
        others = ("num_nodes", "strategy", "plugins")
        if devices is None or devices.value not in (1, "1") or is_open(call):
            continue
        if all(argument(call, name) is None for name in others) and surely_runs(program, call):
            yield found(
                distribution.RANKS_NEVER_MET,
                call,
                f"the Trainer takes one device and knows of no others, and the job starts "
                f"{subject.plan.world_size} processes: each of them trains alone",
            )


@finds(Stage.SCRIPT, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def spawned_processes_are_the_hosts_accelerators(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that starts its processes itself, and not as many as the host has GPUs.

    GPUs without a process are idle and billed, and of two processes on one GPU both are slow. Only where the
    number is a literal, and the strategy is none.

    Bad: `mp.spawn(train, nprocs=4)` on a host with eight. Good: `nprocs=torch.cuda.device_count()`.

    Source: the sources of DIST001.
    """
    facts = instance_facts(subject.job.resources.instance_type)
    if str(subject.job.distribution.strategy) != "none" or facts is None or not facts.has_gpus:
        return
    program = subject.program
    for call, _ in program.calls(*_SPAWNS):
        given = argument(call, "nprocs", 2)
        number = None if given is None else program.value(given)
        if given is None or not isinstance(number, Constant) or type(number.value) is not int:
            continue
        if number.value != facts.accelerators and surely_runs(program, call):
            fewer = number.value < facts.accelerators
            yield found(
                distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
                given,
                f"{number.value} processes are started on hosts with {facts.accelerators} GPUs: "
                + ("the others are idle, and billed" if fewer else "some of them share a device"),
                severity=Severity.WARNING if fewer else None,
            )


@finds(Stage.SCRIPT, nccl.OBSOLETE_ENVIRONMENT, nccl.FIGHTS_THE_PLUGIN)
def settings_suit_the_job(subject: ScriptSubject) -> Iterator[Finding]:
    """A variable that is obsolete for the job's torch, or fights the plugin of a host with EFA.

    What it was to change stays as it is, or the plugin's own choice is lost.

    What harms everywhere is found without a job.

    Bad: `os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"` with torch 2.2 or later, before which it is right.
    Good: no such line, or the name `TORCH_NCCL_ASYNC_ERROR_HANDLING`.

    Source: the sources of NCCL001 and NCCL002.
    """
    from launcher.planning.torch_version import torch_version

    program, torch = subject.program, torch_version(subject.job)
    facts = instance_facts(subject.job.resources.instance_type)
    for change in changed_variables(program):
        value = constant(program, change.value)
        if (
            value is None
            or value.value is None
            or not (change.only_unset or surely_runs(program, change.node))
        ):
            continue
        text = str(value.value).strip()
        harm = variables.obsolete(change.name, text, torch)
        if harm and variables.obsolete(change.name, text, None) is None:
            yield found(nccl.OBSOLETE_ENVIRONMENT, change.node, f"{change.name}={text}: {harm}")
        advice = variables.advice_on(change.name)
        if advice is None or not advice.with_efa_only or facts is None or not facts.has_efa:
            continue
        if text not in advice.harmless and facts.plugin_environment.get(change.name) != text:
            message = f"{change.name}={text} {advice.harm}"
            yield found(nccl.FIGHTS_THE_PLUGIN, change.node, message, severity=Severity.WARNING)


def _may_make_a_group(program: Program) -> bool:
    """Whether anything in the program could make a process group; what cannot be read could."""
    if program.known_as({"init_process_group"}) & _used(program):
        return True
    return any("init_device_mesh" in file.calls_of for file in program.files) or imports_the_unknown(program)


def _trains(program: Program) -> bool:
    """Whether a model is trained by the script's own hands."""
    return any("backward" in file.calls_of for file in program.files)


def _used(program: Program) -> set[str]:
    return {name for file in program.files for name in (*file.calls_of, *file.names, *file.attributes)}


JOB_RULES = (
    script_fits_the_strategy,
    entry_point_has_a_worker_function,
    trainer_knows_its_processes,
    spawned_processes_are_the_hosts_accelerators,
    settings_suit_the_job,
)
"""The rules that judge script and job together."""
