"""Whether the workers of loaders are there, and have the CPUs and the memory that they need."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Related, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calculate_number,
    constant_argument,
    has_star_arguments,
    origins,
)
from launcher.program.index import SCOPE
from launcher.program.program import Program
from launcher.program.surroundings.options import option_of
from launcher.program.values import (
    Constant,
    External,
    Instance,
    WorldSize,
    alternatives,
)
from launcher.rules.script.data.loaders import Loaders
from launcher.rules.script.data.workers.pools import WorkerPools
from launcher.rules.script.default_values import default_number
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def workers_are_there(program: Program) -> Iterator[Finding]:
    """`prefetch_factor` or `persistent_workers=True` in a DataLoader without workers.

    DataLoader raises ValueError, on every rank, before the first batch. num_workers is 0 unless given.

    Bad: `DataLoader(dataset, persistent_workers=True)`
    Good: `DataLoader(dataset, num_workers=4, persistent_workers=True)`

    Source: torch/utils/data/dataloader.py.
    """
    loaders = program.analysis(Loaders)
    for loader in loaders.calls:
        workers = loaders.given(loader, "num_workers")
        if has_star_arguments(loader) or not (workers is None or program.value(workers) == Constant(0)):
            continue
        for name in ("prefetch_factor", "persistent_workers"):
            given = constant_argument(program, argument_of(loader, name))
            if given is not None and given.value is not None and given.value is not False:
                yield finding_at(
                    data.LOADER_WORKER_KILLED,
                    loader,
                    f"{name}={given.value}, but num_workers is 0: DataLoader raises ValueError on every rank",
                    remedy=f"Give num_workers, or leave out {name}.",
                )
                break


# The workers that a script starts, against the CPUs of the job's hosts.


@finds(Stage.SCRIPT, data.TOO_MANY_WORKERS)
def workers_have_cpus(subject: ScriptSubject) -> Iterator[Finding]:
    """More workers in a DataLoader than the host has vCPUs for each process, by literal, default or a count.

    Each process starts as many, and they take time and memory from each other and from the training: also
    where it counts the CPUs of its host, which are not its own alone. What the job file gives the script is
    judged there.

    Bad: `DataLoader(dataset, num_workers=os.cpu_count())` on an ml.p4d.24xlarge with 96 vCPUs, 8 processes
    Good: `DataLoader(dataset, num_workers=os.cpu_count() // torch.cuda.device_count())`

    Source: torch.utils.data documentation; EC2's vCPUs of the instance type.
    """
    processes = subject.plan.processes_per_host
    facts = instance_facts(subject.job.resources.instance_type)
    if facts is None or processes is None:
        return
    program = subject.program
    cpus = max(1, facts.vcpus // processes)
    for pool in program.analysis(WorkerPools).pools:
        given = pool.workers
        number = _number_on_host(subject, given)
        option = option_of(program, given)
        related: list[Related] = [] if option is None else [related_at(option.node, "its default")]
        if number is not None and pool.is_of_host and number >= processes:
            number = -(-number // processes)
        if number is not None and int(number) > cpus:
            workers = int(number)
            yield too_many_workers(given, workers, processes, facts, related)


def too_many_workers(
    node: ast.expr, workers: int, processes: int, facts: InstanceFacts, related: Sequence[Related] = ()
) -> Finding:
    """More workers in each process of a host than it has vCPUs for them."""
    cpus = max(1, facts.vcpus // processes)
    return finding_at(
        data.TOO_MANY_WORKERS,
        node,
        f"{workers} workers in each of {processes} processes make {workers * processes} on the "
        f"{facts.vcpus} vCPUs of {facts.instance_type}",
        remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs a process, less one.",
        related=related,
    )


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def prefetched_batches_have_memory(subject: ScriptSubject) -> Iterator[Finding]:
    """Images that the workers of a host keep ready, of a size that the script says, beyond any host's memory.

    Each worker keeps `prefetch_factor` batches in /dev/shm, 2 unless given, in each process. They are counted
    as float32 of three channels, where `ToTensor` makes them of images that are cut to one size.

    Bad: `prefetch_factor=128` with 8 workers, batches of 256 and `RandomResizedCrop(512)`
    Good: `prefetch_factor=2`

    Source: torch.utils.data documentation (prefetch_factor, multi-process data loading).
    """
    processes = subject.plan.processes_per_host
    loaders = subject.program.analysis(Loaders)
    for loader in loaders.calls if processes else ():
        given = [loaders.given(loader, each) for each in ("batch_size", "num_workers", "prefetch_factor")]
        numbers = [None if each is None else _number_on_host(subject, each) for each in given]
        side = _side_of_images(loaders, loader)
        prefetch = given[-1]
        if prefetch is None or processes is None or side is None:
            continue
        bytes_kept = 12 * side * side * processes
        for each in numbers:
            bytes_kept *= int(each or 0)
        if bytes_kept > _LARGEST_HOST:
            yield finding_at(
                data.LOADER_WORKER_KILLED,
                prefetch,
                f"the workers of {processes} processes keep {bytes_kept >> 30} GiB ready in /dev/shm: "
                "they die of a bus error when it is full",
                remedy="Leave prefetch_factor at 2, or give smaller batches.",
            )


_LARGEST_HOST = 4 << 40
"""More bytes than hosts with GPUs have; /dev/shm is a part of it."""

_CUTTING = frozenset({"RandomResizedCrop", "CenterCrop", "RandomCrop"})
"""The transforms of torchvision that make images of one size."""


def _side_of_images(loaders: Loaders, loader: ast.Call) -> int | None:
    """The side of the square images, as tensors of float32, that a dataset's transforms make last."""
    program = loaders.program
    dataset = loaders.given(loader, "dataset")
    made = () if dataset is None else origins(program, dataset)
    steps = [
        one
        for each in made
        for given in (all_arguments(each) if isinstance(each, ast.Call) else [])
        for composed in alternatives(program.value(given))
        if isinstance(composed, Instance) and composed.name.endswith("transforms.Compose")
        for listed in composed.call.args[:1]
        for one in getattr(listed, "elts", ())
    ]
    calls = [(program.qualified(each.func) or "", each) for each in steps if isinstance(each, ast.Call)]
    sizes = [
        argument_of(call, "size", 0)
        for name, call in calls
        if name.startswith("torchvision.transforms.") and name.rpartition(".")[2] in _CUTTING
    ]
    size = None if len(sizes) != 1 or sizes[0] is None else program.value(sizes[0])
    tensors = any(name == "torchvision.transforms.ToTensor" for name, _ in calls)
    return size.value if tensors and isinstance(size, Constant) and isinstance(size.value, int) else None


_OF_SAGEMAKER = ("SM_NUM_CPUS", "SM_NUM_GPUS")
_CPU_COUNTS = frozenset(
    f"{module}.cpu_count" for module in ("os", "multiprocessing", "torch.multiprocessing", "psutil", "joblib")
) | {"os.process_cpu_count"}


def _as_number(node: ast.expr) -> float | ast.expr:
    """The number that a literal text holds; any other expression as it is."""
    text = node.value if isinstance(node, ast.Constant) else None
    return int(text) if isinstance(text, str) and text.isdecimal() else node


def _number_on_host(subject: ScriptSubject, node: ast.expr) -> float | None:
    """What an expression of literals, options, CPUs and processes is on the job's hosts; None if unknown."""
    program, processes = subject.program, subject.plan.processes_per_host
    facts = instance_facts(subject.job.resources.instance_type)

    def of_sagemaker(variable: Constant | None) -> float | None:
        by_name = {"SM_NUM_CPUS": None if facts is None else facts.vcpus, "SM_NUM_GPUS": processes}
        return None if variable is None else by_name.get(str(variable.value))

    def of_host(part: ast.expr) -> float | ast.expr | None:
        if isinstance(part, ast.Attribute) and (option := option_of(program, part)) is not None:
            return _as_number(option.default)
        name = program.qualified(part.func) if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and name in ("os.environ.get", "os.getenv") and len(part.args) == 2:
            variable = constant_argument(program, part.args[0])
            given = variable is None or variable.value in subject.job.environment
            own = variable is not None and variable.value in _OF_SAGEMAKER
            known = given or own or isinstance(program.value(part), WorldSize)
            return of_sagemaker(variable) if own else None if known else _as_number(part.args[1])
        if isinstance(part, ast.Subscript) and program.value(part.value) == External("os.environ"):
            return of_sagemaker(constant_argument(program, part.slice))
        if isinstance(part, ast.Call) and name in _CPU_COUNTS and not part.args:
            return None if facts is None else facts.vcpus
        if isinstance(part, ast.Call) and name == "len" and part.args:
            affinity = program.qualified(part.args[0]) == "os.sched_getaffinity"
            return facts.vcpus if affinity and facts is not None else None
        size = program.value(part)
        if name == "torch.cuda.device_count" or (
            isinstance(size, WorldSize) and "LOCAL" in size.source.upper()
        ):
            return processes
        if isinstance(size, WorldSize) and processes is not None:
            return processes * subject.job.resources.instance_count
        return None

    chosen = program.value(node)  # Of a function with several ways, the one that it is asked for.
    if isinstance(chosen, Instance) and chosen.item is None and SCOPE in chosen.call.__dict__:
        node = chosen.call
    found = calculate_number(program, node, of_host)
    return default_number(program, node) if found is None else found
