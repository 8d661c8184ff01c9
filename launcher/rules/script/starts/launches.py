"""What a job's launcher and the number of its processes make of a program that is right elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    given_argument,
    has_star_arguments,
    origins,
    text_beginning,
)
from launcher.program.index import ancestors, ancestors_in_function
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import variables_in
from launcher.program.process_starts import is_for_one_host
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.reachability import never_runs, surely_runs
from launcher.program.ranks.training_loops import ends_with_an_error
from launcher.program.surroundings.commands import COMMANDS, spelled_commands
from launcher.program.surroundings.options import default_of_option
from launcher.program.values import (
    DDP,
    FSDP,
    INIT_PROCESS_GROUP,
    Constant,
    RankKind,
    RankValue,
    WorldSize,
    library_names,
)
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.process_groups import STARTS_EACH_PROCESS, takes_one_device
from launcher.rules.script.processes import chooses_devices, device_indices
from launcher.rules.script.starts.job_run import OTHER_LAUNCHERS, JobRun, given_option
from launcher.rules.script.starts.topology import LOOPBACK, SAMPLER, is_part_of_the_start, makes_a_group


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def nothing_is_submitted_again(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that hands the training to a scheduler of a cluster, in each process of the job.

    No scheduler is there, and what takes its place starts the same training once more in every process.

    Silent where an option or variable of the job does not lead there.

    Bad: `submitit.AutoExecutor(folder).submit(train)`, `os.system("sbatch train.sh")`. Good: `train()`.

    Source: the sources of DIST005; submitit/auto/auto.py (AutoExecutor).
    """
    program, run = subject.program, JobRun(subject)
    submitted = [call for call, _ in program.calls(*library_names("job_submitters"))]
    for call in (*submitted, *_commands_to_schedulers(program)):
        if surely_runs(program, call, known=run.truth):
            message = "every process would submit the training once more, to a scheduler that is not there"
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                message,
                remedy="Call what is submitted here: the job starts each rank itself.",
            )
            return


def _commands_to_schedulers(program: Program) -> Iterator[ast.Call]:
    """Where a program hands itself, or another one, to a scheduler of a cluster."""
    schedulers = ("sbatch", "srun", "salloc", "qsub", "bsub")
    for call, _ in program.calls(*COMMANDS):
        commands = list(spelled_commands(program, call))
        if commands and all(words and words[0] in schedulers for words in commands):
            yield call


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def local_rank_is_handed_over(subject: ScriptSubject) -> Iterator[Finding]:
    """A device or rank by `local_rank`, which torchrun hands to no process: all of a host have the default.

    They share one GPU by a number, and by -1, of which set_device makes nothing. Without a default set_device
    ends each process, and so does a group at an address that is given -1 as a rank. Where a test of the
    option decides whether a process joins the others, samples its share or wraps the model, none does.

    Silent where the program sets it, about a device where CUDA_VISIBLE_DEVICES is named, and where a test of
    the option does not lead there.

    Bad: `torch.cuda.set_device(args.local_rank)` with a default of 0. Good: `os.environ["LOCAL_RANK"]`.

    Source: the sources of DIST003; torch/distributed/launch.py, rendezvous.py; torch/cuda/__init__.py.
    """
    program, run, processes = subject.program, JobRun(subject), subject.plan.processes_per_host or 1
    if run.strategy != "torchrun" or processes < 2 or not makes_a_group(program):
        return
    declared = program.evaluation.attributes.options.handed_over
    related = [related_at(each, "the option is declared here") for each in declared]
    handed = "torchrun sets LOCAL_RANK and hands over no --local_rank"
    unfit = distribution.SCRIPT_DOES_NOT_FIT_STRATEGY
    for call, rank in _ranks_of_groups(program):
        told = _told_local_rank(run, rank)
        refused = told is not None and (told.value is None or _is_refused_as_rank(program, call, told))
        if told and refused and not never_runs(program, call, run.truth):
            message = f"{handed}: each process would join as rank {told.value}, and ends here"
            yield finding_at(unfit, rank, message, related=related)
            return
    for node, index in device_indices(program):
        told = _told_local_rank(run, index)
        if told is None and (same := _same_for_all(run, node, index)) is not None:
            yield same
            return
        if told is None or not is_part_of_the_start(program, node):
            continue
        names_no_device = told.value in (None, -1)
        if names_no_device and not (_is_set(program, node) and not never_runs(program, node, run.truth)):
            continue
        if told.value is None:
            message = f"{handed}: it is None, and each process ends here"
            yield finding_at(unfit, node, message, related=related)
            return
        if type(told.value) is int and told.value >= -1 and not chooses_devices(program):
            harm = f"{processes} processes on each host take GPU {max(told.value, 0)}"
            mode = distribution.MORE_PROCESSES_THAN_DEVICES
            yield finding_at(mode, node, f"{handed}: {harm}", related=related)
            return
    missed = next(filter(run.options_leaving_out, _of_several_ranks(program)), None)
    if missed is not None and declared:
        name = (program.qualified(missed.func) or "").rpartition(".")[2]
        message = f"{handed}: with its default no process comes to {name}, which makes it one of several"
        yield finding_at(unfit, declared[0], message, related=[related_at(missed, "never come to")])


def _same_for_all(run: JobRun, node: ast.AST, index: ast.expr) -> Finding | None:
    """A device by what this job leaves to a default, so that all processes of a host take one: an option
    that no launcher hands over, or a variable that nobody sets or only another launcher."""
    program, processes = run.program, run.plan.processes_per_host
    option, value = default_of_option(program, index), program.value(index)
    by_other = isinstance(value, RankValue) and value.source.startswith(OTHER_LAUNCHERS)
    asked = variables_in(program, index)
    by_nobody = bool(asked) and all(run.holds(each) is False for each in asked)
    if (
        (option is None and not by_other and not by_nobody)
        or isinstance(value, Constant)
        or chooses_devices(program)
    ):
        return None
    told = run.value(index)
    if told is None or type(told.value) is not int or told.value < 0:
        return None
    if not surely_runs(program, node, known=run.truth) and not is_part_of_the_start(program, node):
        return None
    message = f"in this job that is {told.value}: {processes} processes on each host take GPU {told.value}"
    related = [related_at(option.node, "the default is written here")] if option else []
    return finding_at(distribution.MORE_PROCESSES_THAN_DEVICES, node, message, related=related)


def _of_several_ranks(program: Program) -> Iterator[ast.Call]:
    """What a process does as one of several: it joins them, samples its share, reduces gradients."""
    yield from (call for call, _ in program.calls(SAMPLER, DDP, FSDP))
    joining = [call for call, _ in joining_calls(program)]
    yield from joining if len(joining) == 1 else ()


def _told_local_rank(run: JobRun, index: ast.expr) -> Constant | None:
    """What a number is in every process of a job that is the option which only other launchers hand over."""
    program = run.program
    values = {program.value(each) for each in (index, *origins(program, index)) if each is not None}
    by_option = any(isinstance(each, RankValue) and each.source == "--local_rank" for each in values)
    place = index
    while isinstance(place, ast.BinOp) and isinstance(place.op, ast.Mod):
        place = place.left
    told = (run.value(place) or _given_local_rank(run, place)) if by_option else None
    is_last = place is not index and told == Constant(-1)  # Of as many devices as the host has.
    return Constant((run.plan.processes_per_host or 1) - 1) if is_last else told


def _given_local_rank(run: JobRun, index: ast.expr) -> Constant | None:
    """What the option is that a number surely is, by whatever ways: `config["local_rank"]`."""
    is_option = run.program.value(index) == RankValue(RankKind.LOCAL, "--local_rank")
    options = run.program.evaluation.attributes.options
    named = (name for name, calls in options.declared.items() if {*calls} & {*options.handed_over})
    name = next(named, None) if is_option else None
    return None if name is None else run.option(name)


def _ranks_of_groups(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        rank = argument_of(call, "rank", 4)
        if rank is not None:
            yield call, rank


def _is_set(program: Program, node: ast.AST) -> bool:
    """Whether a device is taken by set_device, and an error of it is caught nowhere in the function."""
    caught = any(isinstance(each, ast.Try) for each in ancestors_in_function(node))
    is_call = isinstance(node, ast.Call) and program.qualified(node.func) == "torch.cuda.set_device"
    return is_call and not caught


def _is_refused_as_rank(program: Program, group: ast.Call, rank: Constant) -> bool:
    """Whether a group ends with an error for a rank that counts as none: nothing else tells it one."""
    method = argument_of(group, "init_method", 1)
    address = None if method is None else text_beginning(program, method)
    by_address = address is not None and address[0].startswith(("tcp://", "file://"))
    return by_address and type(rank.value) is int and rank.value == -1


_ADDRESS = re.compile(r"tcp://(\[[^\]]{1,50}\]|[\w.-]{1,253})(:\d{1,5})?")


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def job_says_where_the_ranks_meet(subject: ScriptSubject) -> Iterator[Finding]:
    """A group at the address that is the default of an option, and a job that does not give the option.

    It is that of somebody else's host, or a multicast address, at which the ranks met before torch 1.0. They
    connect to it until the time-out.

    Silent about a host's own address, which is found without a job, where the program sets the option, and
    where this job never comes to the group; a warning where it may not.

    Bad: `init_method=args.dist_url` with the default `tcp://224.66.41.62:23456`. Good: `env://`.

    Source: the sources of DIST006; torch/distributed/rendezvous.py.
    """
    program, run = subject.program, JobRun(subject)
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        given = argument_of(call, "init_method", 1)
        option = None if given is None else default_of_option(program, given)
        if given is None or option is None or run.value(given) != Constant(option.value):
            continue
        matched = _ADDRESS.fullmatch(str(option.value))
        if matched is None or LOOPBACK.fullmatch(matched[1].strip("[]")):
            continue
        if not never_runs(program, call, run.truth):
            yield finding_at(
                distribution.HARD_CODED_TOPOLOGY,
                given,
                f"this job does not say where the ranks meet, and by default that is {matched[0]}: nobody is "
                "there, and the start hangs",
                severity=None if surely_runs(program, call, known=run.truth) else Severity.WARNING,
                related=[related_at(option.node, "the default is written here")],
            )


class SizedRun(JobRun):
    """A run of which the number of processes is known, where the job and not the program starts them."""

    def __init__(self, subject: ScriptSubject) -> None:
        """Of the job that starts the program."""
        super().__init__(subject)
        self._sizes: dict[str, int | None] = {}
        if self.strategy in STARTS_EACH_PROCESS and not is_for_one_host(self.program):
            self._sizes = {
                "WORLD_SIZE": self.plan.world_size,
                "torch.distributed.get_world_size": self.plan.world_size,
                "LOCAL_WORLD_SIZE": self.plan.processes_per_host,
                "torch.cuda.device_count": self.facts.accelerators if self.facts else None,
            }

    def value(self, node: ast.expr) -> Constant | None:
        """As in any run, and the sizes that its launcher tells the processes."""
        found = self.program.value(node)
        is_size = isinstance(node, ast.Call | ast.Subscript) and isinstance(found, WorldSize)
        size = self._sizes.get(found.source) if is_size and isinstance(found, WorldSize) else None
        name = self.program.qualified(node.func) if isinstance(node, ast.Call) else None
        by_variable = name in ("int", "os.getenv", "os.environ.get")
        return (
            Constant(size) if size and (by_variable or not getattr(node, "args", ())) else super().value(node)
        )


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def assertions_hold_for_the_jobs_ranks(subject: ScriptSubject) -> Iterator[Finding]:
    """An assertion, or an error under a test, that the job's number of processes surely fails.

    Every process ends there, as soon as it comes to it.

    Silent where it depends on what is not written, or is caught.

    Bad: `assert 512 % (64 * world_size) == 0`
    with 16 ranks. Good: `batch = 32 * world_size`.

    Source: the sources of DIST006.
    """
    program, run, unsized = subject.program, SizedRun(subject), JobRun(subject)
    kinds = (ast.Assert, ast.If)
    for node in (each for file in program.files for kind in kinds for each in file.nodes(kind)):
        assert isinstance(node, ast.Assert | ast.If)
        ends = isinstance(node, ast.If)
        if isinstance(node, ast.If) and not ends_with_an_error(node.body[-1:]):
            continue
        if run.truth(node.test) is not ends:
            continue
        caught = any(isinstance(each, ast.Try) for each in ancestors(node))
        if not caught and unsized.truth(node.test) is None and surely_runs(program, node, known=run.truth):
            message = f"every process ends here, as the job has {subject.plan.world_size} of them"
            yield finding_at(distribution.HARD_CODED_TOPOLOGY, node.test, message)


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def trainers_know_all_hosts(subject: ScriptSubject) -> Iterator[Finding]:
    """A Trainer of Lightning that counts on another number of hosts than the job has.

    Without `num_nodes` it counts on one. Under torchrun it multiplies that by its devices, and ends every
    process where the ranks that it finds are more.

    A warning where its arguments are unpacked, or read by its own parser, and no file names `num_nodes`.

    Silent about one device or none, and where the number is not written or an option's.

    Bad: `Trainer(devices=8)` on two hosts. Good: `num_nodes=int(os.environ["GROUP_WORLD_SIZE"])`.

    Source: lightning/fabric/plugins/environments/torchelastic.py (validate_settings).
    """
    program, run, hosts = subject.program, JobRun(subject), subject.job.resources.instance_count
    if run.strategy != "torchrun" or hosts < 2:
        return
    told = given_option(subject.job, "num_nodes") or given_option(subject.job, "trainer.num_nodes")
    for call, name in program.calls(*_TRAINERS):
        nodes, devices = (given_argument(program, call, each) for each in ("num_nodes", "devices"))
        kind = constant_argument(program, argument_of(call, "accelerator"))
        on_gpus = kind in (None, Constant("gpu"), Constant("cuda"), Constant("auto"))
        alone = devices is not None and takes_one_device(run, devices)
        counted = Constant(1) if nodes is None else run.value(nodes)
        checked = argument_of(call, "plugins") is None  # Which may be an environment that asks nothing.
        is_open = nodes is None and (has_star_arguments(call) or name not in _TRAINERS[:2])
        if is_open and (told is not None or _names_hosts(program) or not _is_made_here(program, call)):
            continue
        if not checked or not on_gpus or alone:
            continue
        if counted is None or type(counted.value) is not int or counted.value == hosts:
            continue
        if surely_runs(program, call, known=run.truth):
            yield finding_at(
                distribution.HARD_CODED_TOPOLOGY,
                call if nodes is None or not hasattr(nodes, "parent") else nodes,
                f"{'Fabric' if name == _TRAINERS[1] else 'Trainer'} counts on {counted.value} of the job's "
                f"{hosts} hosts: its devices do not come to the number of ranks, and it ends every process",
                remedy='Pass `num_nodes=int(os.environ["GROUP_WORLD_SIZE"])`, which torchrun sets.',
                severity=Severity.WARNING if is_open else None,
            )


def _is_made_here(program: Program, call: ast.Call) -> bool:
    """Whether all that a call unpacks is made in the program, and comes from nowhere unseen."""
    stars = [each.value for each in call.keywords if each.arg is None]
    names = [part for each in stars for part in walk(each) if isinstance(part, ast.Name)]
    known = all(program.evaluation.sources(each) or program.qualified(each) for each in names)
    return known and not any(isinstance(each, ast.Starred) for each in call.args)


def _names_hosts(program: Program) -> bool:
    """Whether any file of the program, or one of its configuration, names Lightning's number of hosts."""
    texts = (*(each.text for each in program.files), *program.analysis(ConfigurationFiles).texts())
    return any("num_nodes" in each for each in texts)


_TRAINERS = (
    "lightning.pytorch.Trainer",
    "lightning.fabric.Fabric",
    "lightning.pytorch.Trainer.from_argparse_args",
    "lightning.pytorch.cli.LightningCLI",
)
"""What Lightning trains by; of the last two, the arguments may come from the command line too."""


LAUNCH_RULES = (
    nothing_is_submitted_again,
    local_rank_is_handed_over,
    job_says_where_the_ranks_meet,
    assertions_hold_for_the_jobs_ranks,
    trainers_know_all_hosts,
)
"""The rules of this family, which need a job."""
