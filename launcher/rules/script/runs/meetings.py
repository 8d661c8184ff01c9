"""How the ranks of a job come together, and on which devices, as they run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.failure_modes import ddp, distribution
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.execution.objects import OPEN, OWN, CallMade, Symbol, is_known
from launcher.program.execution.ranks import STARTING, RankRun, words_of_own
from launcher.program.program import is_of_a_library, joining_calls, unknown_imports
from launcher.program.values import INIT_PROCESS_GROUP, library_names
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.process_groups import imports_what_joins, ranks_without_group
from launcher.rules.script.runs.rank_runs import TRAINING, RankRuns, settings_of
from launcher.rules.script.starts.timeouts import GROUP_MAKERS

_BY_MPI = ("horovod.torch.init", "horovod.tensorflow.init", "mpi4py.MPI.COMM_WORLD.Get_rank")
_ONE_HOST = re.compile(r"tcp://(localhost|127\.0\.0\.1|0\.0\.0\.0)(:|$)")
_FILE_OF_HOST = re.compile(rf"file:/+(tmp|var|root|home|dev|opt/ml/code)(/|$)|file:/+{OWN}")
"""Addresses of a file on the disk of a host, which no other one sees."""
_STARTING = (
    *(f"torch.multiprocessing.{each}" for each in ("spawn", "start_processes", "Process")),
    *("torch.multiprocessing.get_context().Process", "multiprocessing.get_context().Process"),
)
_SETTING_DEVICES = (
    "torch.cuda.set_device",
    "torch.cuda.device",
    "torch.set_default_device",
    "torch.accelerator.*",
)
_JOINING = re.compile(
    r"(^|[_ ])(init(ialize)?|setup|set_up)"
    r"(?=$| |_(?!logg|weight|param|seed|backbone|model|optim|data|metric|writer))"
    r"|dist(?!anc)|ddp|launch|parallel|process_?group|world|(^|[_ ])(comm(?=$|[_ u])|ranks?(?=$|[_ ]))",
    re.IGNORECASE,
)
_NEEDING_GROUP = frozenset(
    each
    for each in library_names("collectives")
    if each.startswith("torch.distributed.") and each.count(".") == 2
)
"""The collectives of torch, which it refuses without a group."""
_MAKING_GROUP = library_names("joining_calls")
_BY_IMPORT = re.compile(r"dist|parallel|launch|cluster|slurm|mpi|comm", re.IGNORECASE)
"""What modules are called that may make one as they are imported."""
_CHOOSING = re.compile(rf"{_JOINING.pattern}|cuda|device|gpu|accelerat", re.IGNORECASE)
"""What functions are called that may make a group, and that may choose a device."""
_LEAVING = re.compile(r"destroy|clean_?up|shut_?down|finali[sz]e|teardown|end_training", re.IGNORECASE)
"""What functions are called that may end a group."""
_INDEX = re.compile(r"cuda:(\d+)")
_DEVICES = re.compile(r"\d+(,\d+)*")


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def ranks_come_to_their_group(runs: RankRuns) -> Iterator[Finding]:
    """A group that the program makes only with words or variables that this job does not give, or never.

    Each process then trains a whole model for itself. Silent where a library has a part in it.

    Bad: `if args.group_name: init_process_group(...)` with a job that gives no `--group_name`. Good: the
    group is made where `WORLD_SIZE` is greater than one. Source: the sources of DIST008.
    """
    if runs.first is None or not (runs.are_launched and runs.trains):
        return
    if any(each.group for each in runs.runs):
        return
    if runs.by_libraries or any(each.name.startswith("slipway.") for each in runs.first.events):
        return
    if any(each.args and not is_of_a_library(each.name) for each in runs.first.calls("*.backward")):
        return  # `accelerator.backward(loss)`: of something unknown that may have made a group.
    passed_over = next(
        (call for call, name in joining_calls(runs.program) if name == INIT_PROCESS_GROUP), None
    )
    if runs.may_call(_JOINING) or imports_what_joins(runs.program) or collective_without_group(runs):
        return
    if passed_over is None:
        yield from _never_grouped(runs, runs.first)
        return
    yield finding_at(
        distribution.RANKS_NEVER_MET,
        passed_over,
        "with the words and variables of this job no process comes here: each of the "
        f"{runs.world_size} trains a whole model for itself",
        related=[
            *runs.tests_against(passed_over),
            *(related_at(each.node, "trained here") for each in [*runs.first.calls(*TRAINING)][:1]),
        ],
    )


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def collectives_have_a_group(runs: RankRuns) -> Iterator[Finding]:
    """A collective that the ranks come to without a group: torch refuses it, and every rank ends there.

    Mostly the group is made where an option tells the local rank, which torchrun tells by a variable alone.
    Silent behind anything that may have made one.

    Bad: `if args.local_rank != -1: init_process_group("nccl")`, then `torch.distributed.barrier()`, with
    `strategy: torchrun`. Good: the same with `local_rank = int(os.environ["LOCAL_RANK"])`. Source: the
    sources of DIST005; torch's distributed_c10d.py, "Default process group has not been initialized".
    """
    event = collective_without_group(runs)
    if event is None:
        return
    made = next((call for call, _ in joining_calls(runs.program)), None)
    yield finding_at(
        distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
        event.node,
        "no process group is there when the ranks come here: every one of them ends with 'Default process "
        "group has not been initialized'",
        remedy="Make the group first, in every rank. torchrun tells the local rank by the variable "
        "LOCAL_RANK, not by `--local_rank`.",
        related=[] if made is None else runs.tests_against(made),
    )


def collective_without_group(runs: RankRuns) -> CallMade | None:
    """The first collective of torch that rank 0 surely calls before anything that may make a group."""
    if runs.first is None or not runs.are_launched:
        return None
    for event in runs.first.events:
        if event.name in _NEEDING_GROUP:
            return event if event.is_sure else None
        is_of_torch = event.name.startswith("torch.")
        if event.name in _MAKING_GROUP or (not is_of_torch and _JOINING.search(event.name)):
            return None
    return None


def _never_grouped(runs: RankRuns, first: RankRun) -> Iterator[Finding]:
    """A program that calls nothing that makes a group, and of which all that its libraries do is seen."""
    unknown = list(unknown_imports(runs.program))
    by_other_ways = bool(runs.program.mentioning("init_process_group")) or any(runs.calls(*_STARTING))
    # What no rank calls makes a group where it is imported, if at all.
    if not by_other_ways and not any(map(_BY_IMPORT.search, unknown)):
        # DataParallel shows who was meant to take the GPUs of a host: one process for all of them.
        trained = [*first.calls("torch.nn.parallel.DataParallel"), *first.calls(*TRAINING)]
        yield from ranks_without_group(trained[0].node, runs.world_size, is_sure=not unknown)


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def libraries_of_mpi_have_mpi(runs: RankRuns) -> Iterator[Finding]:
    """Horovod or mpi4py in a job that torchrun starts: each process is a world of one to them.

    Every one trains a whole model on the first device, and all of them save as rank 0.

    Bad: `hvd.init()` with `strategy: torchrun`. Good: the same with `strategy: mpi`. Source: the sources
    of DIST005; Horovod's documentation, running Horovod.
    """
    if runs.strategy != "torchrun" or (not runs.trains and next(runs.calls("*.step"), None) is None):
        return
    for event in (each for run in runs.runs[:1] for each in run.calls(*_BY_MPI) if each.is_sure):
        yield finding_at(
            distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
            event.node,
            f"torchrun starts the processes, and {event.name.partition('.')[0]} asks MPI who they are: each "
            f"of the {runs.world_size} takes itself for the only one, on the first device",
            remedy="Start them by mpirun (`distribution: {strategy: mpi}`), or take the rank from RANK.",
        )
        return


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def programs_start_themselves_once(runs: RankRuns) -> Iterator[Finding]:
    """A program that starts itself again, as a process for each GPU, in a job whose launcher has done so.

    Each rank of a host starts as many: they share the devices, and claim the same ranks.

    Bad: `subprocess.Popen([sys.executable, *sys.argv, f"rank={rank}"])` in a loop, with `strategy: torchrun`.
    Good: the same with `strategy: none` on one host, or no such start. Source: the sources of DIST005.
    """
    for event in (each for run in runs.runs[:1] for each in run.calls(*STARTING) if each.is_sure):
        if runs.are_launched and words_of_own(runs.program, event) is not None:
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                event.node,
                f"the job starts {runs.processes} processes on each host, and each starts this program "
                "again here: they share the devices and claim the same ranks",
                remedy="Leave the start to the job: take rank and size from the variables of its launcher.",
            )
            return


@finds(
    Stage.SCRIPT,
    distribution.LOCAL_RANK_AS_RANK,
    distribution.HARD_CODED_TOPOLOGY,
    distribution.RANKS_NEVER_MET,
)
def groups_are_those_of_the_job(runs: RankRuns) -> Iterator[Finding]:
    """A group that is made with another rank, size or address than the job's.

    Two hosts that claim the same ranks wait for each other until the timeout; so do fewer than are told. An
    address of the host itself is another one on each, and with a group of one host's ranks each host trains
    for itself.

    Bad: `init_process_group("nccl", rank=local_rank, world_size=8)` on two hosts. Good: without both, which
    torchrun tells. Source: the sources of DIST006 and DIST007.
    """
    made = [_group_of(run) for run in runs.runs]
    first, other = (made[0], made[-1]) if made else (None, None)
    if first is None or other is None or runs.hosts < 2 or first.argument("world_size", 3) == 1:
        return
    # Where a program starts ranks of one host itself, that is judged where it starts them.
    starts_its_own = next(runs.calls(*_STARTING), None) is not None
    ranks = first.argument("rank", 4), other.argument("rank", 4)
    address, size = first.argument("init_method", 1), first.argument("world_size", 3)
    in_file = isinstance(address, str) and _FILE_OF_HOST.match(address)
    if in_file and isinstance(size, int) and 0 < size <= runs.processes:
        yield finding_at(
            distribution.RANKS_NEVER_MET,
            first.node,
            f"the group of {size} ranks meets in a file of the host itself: each of the {runs.hosts} hosts "
            "has one of its own and trains for itself",
            related=_options_in(runs, first, "init_method", 1),
        )
        return
    spans_hosts = not starts_its_own or (isinstance(size, int) and size > runs.processes)
    if spans_hosts and isinstance(ranks[0], int) and ranks[0] >= 0 and ranks[0] == ranks[1]:
        yield finding_at(
            distribution.LOCAL_RANK_AS_RANK,
            first.node,
            f"a rank of each host claims to be rank {ranks[0]} of the group: the hosts wait for each other "
            "until the timeout",
            related=_options_in(runs, first, "rank", 4),
        )
    if isinstance(address, str) and (in_file or _ONE_HOST.match(address)):
        yield finding_at(
            distribution.HARD_CODED_TOPOLOGY,
            first.node,
            f"the group meets at {address.strip(OPEN)}, which is another host on each of the {runs.hosts}",
            related=_options_in(runs, first, "init_method", 1),
        )
    elif not starts_its_own and isinstance(size, int) and size > 0 and size != runs.world_size:
        yield finding_at(
            distribution.HARD_CODED_TOPOLOGY,
            first.node,
            f"the group is to have {size} ranks, and the job starts {runs.world_size}",
            related=_options_in(runs, first, "world_size", 3),
        )


def _options_in(runs: RankRuns, made: CallMade, name: str, place: int) -> list[Related]:
    """The options that an argument of a call reads."""
    given = argument_of(made.node, name, place)
    return [] if given is None else settings_of(runs.runs[0], [given])


def _group_of(run: RankRun) -> CallMade | None:
    return next((each for each in run.calls(INIT_PROCESS_GROUP) if each.is_sure), None)


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def ranks_have_their_own_devices(runs: RankRuns) -> Iterator[Finding]:
    """Two ranks of a host on one device, as they choose it in this job.

    NCCL refuses two ranks on one device, and the others are idle.

    Bad: `torch.cuda.set_device(args.gpu)` with a default of 0. Good: the same by LOCAL_RANK. Source: the
    sources of DIST003.
    """
    if runs.first is None or runs.neighbour is None or runs.by_libraries or not runs.trains:
        return
    if any("CUDA_VISIBLE_DEVICES" in run.variables for run in runs.runs):
        return
    chosen = [_device(run) for run in (runs.first, runs.neighbour)]
    if chosen[0] is None or chosen[1] is None:
        return
    (event, number), (_, other) = chosen[0], chosen[1]
    if number is None or number != other:
        return
    if event.name not in _SETTING_DEVICES and runs.may_call(_CHOOSING):
        return
    started = next(runs.first.calls(*_STARTING), None)
    own = runs.are_launched and started is not None and started.node in event.callers
    yield finding_at(
        distribution.MORE_PROCESSES_THAN_DEVICES,
        started.node if started is not None and own else event.node,
        f"each of the {runs.processes} ranks of a host starts processes of its own here, and they take the "
        "same devices"
        if own
        else f"rank 0 and rank 1 of a host both take device {number} here in this job",
        severity=Severity.ERROR,
        related=[
            *([related_at(event.node, f"device {number} is taken here")] if own else []),
            *settings_of(runs.first, [event.node]),
        ],
    )


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY, distribution.MORE_PROCESSES_THAN_DEVICES)
def variables_of_the_launcher_are_kept(runs: RankRuns) -> Iterator[Finding]:
    """An address or a list of devices that every rank sets for itself, over what the job gives it.

    With a fixed address each host waits for itself; with fixed devices all ranks of a host share them. Silent
    where a rank has other ones than its neighbour.

    Bad: `os.environ["CUDA_VISIBLE_DEVICES"] = config["gpus"]`. Good: no such line. Source: the sources of
    DIST006 and DIST003.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or (first.group is None and not runs.trains):
        return
    joined = -1 if first.group is None else first.events.index(first.group)
    for place, event in enumerate(first.events):
        if event.name != "os.environ.__setitem__":
            continue
        name, value = event.args
        if not event.is_sure or not isinstance(value, str) or not is_known(value):
            continue
        if (
            name == "MASTER_ADDR"
            and place < joined
            and runs.hosts > 1
            and value in ("localhost", "127.0.0.1", "0.0.0.0")
        ):
            yield finding_at(
                distribution.HARD_CODED_TOPOLOGY,
                event.node,
                f"MASTER_ADDR is set to {value}, which is another host on each of the {runs.hosts}",
            )
        elif (
            name == "CUDA_VISIBLE_DEVICES"
            and neighbour is not None
            and neighbour.variables.get(name) == value
        ):
            shown = value.count(",") + 1
            if _DEVICES.fullmatch(value) and shown < runs.processes:
                yield finding_at(
                    distribution.MORE_PROCESSES_THAN_DEVICES,
                    event.node,
                    f"every rank of a host sees the same {shown} of its devices ({value}), and "
                    f"{runs.processes} ranks share them",
                    severity=Severity.ERROR,
                )


@finds(Stage.SCRIPT, ddp.GROUP_NEVER_DESTROYED)
def every_rank_destroys_its_group(runs: RankRuns) -> Iterator[Finding]:
    """A group that some rank of this job never destroys, whatever others do: informational.

    A rank that exits with operations pending may keep another one from exiting. Silent where a library has a
    part in it, where something that nobody knows may end the group, and where what ends it is handed on.

    Bad: `if rank == 0: save(model)` with `else: dist.destroy_process_group()`. Good: every rank destroys its
    group. Source: torch.distributed's documentation, on shutdown.
    """
    if not runs.trains or runs.by_libraries or runs.may_call(_LEAVING):
        return
    for run in runs.runs:
        if run.group is None or run.group.name not in GROUP_MAKERS or _ends_group(run):
            continue
        others = [event.node for each in runs.runs for event in each.calls("*.destroy_process_group")]
        yield finding_at(
            ddp.GROUP_NEVER_DESTROYED,
            run.group.node,
            f"rank {run.world.rank} does not come to the end of the group that is made here: while it exits "
            "with operations pending, others may be kept from exiting",
            related=[related_at(each, "others destroy theirs here") for each in others[:1]],
        )
        return


def _ends_group(run: RankRun) -> bool:
    """Whether a rank destroys its group, or gives what does so to something that calls it later."""
    given = (each for event in run.events for each in (*event.args, *event.keywords.values()))
    return any(run.calls("*.destroy_process_group")) or any(
        isinstance(each, Symbol) and each.name.endswith(".destroy_process_group") for each in given
    )


def _device(run: RankRun) -> tuple[CallMade, int | None] | None:
    """The call by which a rank chooses its device, or comes to the first one as it chooses none."""
    if any(not each.is_sure for each in run.calls(*_SETTING_DEVICES)):
        return None
    setting = next(run.calls(*_SETTING_DEVICES), None)
    if setting is not None:
        return setting, _index(setting.argument("device", 0))
    for each in run.calls("*.cuda", "*.to"):
        given = each.args[0] if each.args else None
        is_cuda = each.name.endswith(".cuda") and not each.args and not each.keywords
        if each.is_sure and (is_cuda or _index(given) is not None):
            return each, 0 if is_cuda else _index(given)
    return None


def _index(device: object) -> int | None:
    """The number of a device, None where it is not known."""
    if isinstance(device, Symbol) and device.made_by is not None and device.name == "torch.device()":
        kind, number = device.made_by.argument("type", 0), device.made_by.argument("index", 1)
        return _index(f"cuda:{number}") if isinstance(number, int) and kind == "cuda" else _index(kind)
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if device == "cuda":
        return 0
    found = _INDEX.fullmatch(device) if isinstance(device, str) else None
    return int(found[1]) if found else None


MEETING_RUN_RULES = (
    ranks_come_to_their_group,
    collectives_have_a_group,
    libraries_of_mpi_have_mpi,
    programs_start_themselves_once,
    groups_are_those_of_the_job,
    ranks_have_their_own_devices,
    variables_of_the_launcher_are_kept,
    every_rank_destroys_its_group,
)
