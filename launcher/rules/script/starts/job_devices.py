"""Which GPU each process of a job takes, by the job's options and variables and what its launcher tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Related, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, origins
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability, never_runs, surely_runs
from launcher.program.values import Constant
from launcher.rules.script.findings import ScriptSubject, finding_at
from launcher.rules.script.process_groups import STARTS_EACH_PROCESS
from launcher.rules.script.processes import chooses_devices, device_indices, on_the_first_device
from launcher.rules.script.starts.job_run import JobRun
from launcher.rules.script.starts.launches import SizedRun
from launcher.rules.script.starts.topology import is_part_of_the_start, makes_a_group

_ONE_DEVICE = re.compile(r"cuda:\d+")


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def device_is_told_to_each_process(subject: ScriptSubject) -> Iterator[Finding]:
    """One GPU for every process of the host, by its name in an option, a configuration or a `device_map`.

    NCCL stops with 'Duplicate GPU detected', or the one device runs out of memory while others are idle.

    Only where this job tells the name, or its default stays, and in a job of several processes on a host.
    Silent where CUDA_VISIBLE_DEVICES is named, and where nobody can tell whether the line runs.

    Bad: `torch.device(args.device)` with the default `cuda:0`, `from_pretrained(name, device_map={"": 0})`.
    Good: `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`, `device_map={"": local_rank}`.
    Source: the sources of DIST006.
    """
    program, run, processes = subject.program, JobRun(subject), subject.plan.processes_per_host or 1
    if run.strategy not in STARTS_EACH_PROCESS or processes < 2 or chooses_devices(program):
        return
    for node, shown in (*_by_name(program, run), *_by_map(program)):
        if surely_runs(program, node, known=run.truth) or is_part_of_the_start(program, node):
            message = (
                f"in this job {processes} processes on each host take {shown}: out of memory, or refused"
            )
            yield finding_at(distribution.HARD_CODED_TOPOLOGY, node, message)
            return


def _by_name(program: Program, run: JobRun) -> Iterator[tuple[ast.AST, str]]:
    """Where a device is taken by a name that the program does not write there, and this name in the job."""
    if not makes_a_group(program):
        return
    places = [(call, argument_of(call, "device", 0)) for call, _ in program.calls("torch.device")]
    places += [(call, argument_of(call, "device", 0)) for call, _ in program.calls("torch.cuda.set_device")]
    places += [
        (call, call.args[0]) for file in program.files for call in file.calls_of.get("to", ()) if call.args
    ]
    for call, given in places:
        made = () if given is None else origins(program, given)
        if given is None or isinstance(program.value(given), Constant) or any(map(_is_put_together, made)):
            continue  # Of a number that is put into the name speaks the rule on the option for it.
        told = run.value(given)
        if told is not None and _ONE_DEVICE.fullmatch(str(told.value)):
            yield call, str(told.value)


def _is_put_together(made: ast.expr | None) -> bool:
    return isinstance(made, ast.JoinedStr | ast.BinOp | ast.Call)


def _by_map(program: Program) -> Iterator[tuple[ast.AST, str]]:
    """Where a whole model is put on one GPU by the map of its parts to devices."""
    for file in program.files:
        for call in file.calls_of.get("from_pretrained", ()):
            given = argument_of(call, "device_map")
            for made in () if given is None else origins(program, given):
                whole = isinstance(made, ast.Dict) and [
                    getattr(each, "value", None) for each in made.keys
                ] == [""]
                device = made.values[0] if isinstance(made, ast.Dict) and whole else made
                told = None if device is None else program.value(device)
                number = told.value if isinstance(told, Constant) else None
                if type(number) is int or _ONE_DEVICE.fullmatch(str(number)):
                    yield call, f"GPU {number}" if type(number) is int else str(number)


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def each_process_of_the_job_takes_a_device(subject: ScriptSubject) -> Iterator[Finding]:
    """A model on `cuda` in every process, where this job passes over what would take another device.

    Without an index, `cuda` is GPU 0 in every process: 'Duplicate GPU detected', or out of memory.

    Bad: `if world_size == 1: torch.cuda.set_device(local_rank)`. Good: set_device in any case.
    Source: the sources of DIST003.
    """
    program, run, processes = subject.program, SizedRun(subject), subject.plan.processes_per_host or 1
    if run.strategy not in STARTS_EACH_PROCESS or processes < 2:
        return
    is_unnamed = program.analysis(Reachability).is_named_nowhere

    def is_passed(node: ast.AST) -> bool:
        return is_unnamed(node) or never_runs(program, node, run.truth)

    passed = [node for node, _ in device_indices(program) if not is_unnamed(node) and is_passed(node)]
    for wrapped in on_the_first_device(program, is_passed) if passed else ():
        beside = [] if wrapped.location is None else [Related(wrapped.location, "the model is wrapped here")]
        yield finding_at(
            distribution.MORE_PROCESSES_THAN_DEVICES,
            passed[0],
            f"this job does not come here, and nothing else takes a device: {processes} processes on each "
            "host share GPU 0",
            related=beside,
        )
        return


JOB_DEVICE_RULES = (device_is_told_to_each_process, each_process_of_the_job_takes_a_device)
"""The rules of this family, which need a job."""
