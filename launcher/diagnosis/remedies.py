"""What to do about a root cause, with the numbers of this job: what its lines say, against what it was
asked to be.

Where a number is not known, the catalogue's own remedy stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from launcher.cluster.instances import InstanceFacts, find_hint, instance_facts
from launcher.diagnosis.signs.sightings import Sighting
from launcher.failure_modes import capacity, data, disk, distribution, hardware, nccl
from launcher.frozen import frozen
from launcher.jobs.script_inputs import BATCH_NAMES, WORKER_NAMES, GivenNumber, find_given_numbers
from launcher.text.values import exact_duration, memory_in_words

# What to do about a full GPU, from the numbers of PyTorch's own message.
#
# Texts: c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 (`GPU 0; 39.59 GiB total capacity; 37.50 GiB
# already allocated; 1.20 GiB free; 37.60 GiB reserved in total by PyTorch`), 2.0 (`a total capacty of`) and
# 2.1 to 2.13.


_A_LITTLE = 1 / 8
"""Of a GPU's memory. Where at least so much is missing a batch of three quarters is not tried: it frees a
quarter of what grows with the batch, and the weights do not."""

_MUCH_UNUSED = 1 / 20
"""Of a GPU's memory: PyTorch's message speaks of pieces "if reserved but unallocated memory is large", and
some is there always."""

_SMALLEST_ROUND = 32
"""From here on batches are rounded to eights, which tensor cores want."""

_SIZE = r"(?<![\d.])(\d{1,9}(?:\.\d{1,4})? ?(?:[KMGT]i?B|bytes))"
_ASKED = re.compile(rf"Tried to allocate {_SIZE}")
_FREE = re.compile(rf"(?:of which {_SIZE} is free|; {_SIZE} free;)")
_TOTAL = re.compile(rf"(?:total capaci?ty of {_SIZE}|; {_SIZE} total capacity)")
_UNALLOCATED = re.compile(rf"\band {_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(rf"; {_SIZE} reserved in total by PyTorch")
_ALLOCATED = re.compile(rf"; {_SIZE} already allocated;")
_OF_OTHERS = re.compile(rf"\bProcess \d{{1,10}} has {_SIZE} memory in use")
_OWN = re.compile(r"\bthis process has \d")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_MOVES_WEIGHTS = re.compile(
    r"\.(?:to|cuda|half|bfloat16|from_pretrained|load_state_dict|to_empty|prepare)\("
    r"|\b(?:DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|fully_shard)\("
)
"""Code that brings a model to the GPU, where a batch plays no part, unless it moves a batch itself."""

_MOVES_A_BATCH = re.compile(r"batch|input|image|label|target|\bx\b|\by\b", re.I)


@frozen
class GpuShortage:
    """A failed allocation, in bytes: what was asked for and free, of how much in all, how much PyTorch held
    without using it, and how much other processes held. None is what the line does not say."""

    asked: float
    free: float
    total: float | None = None
    unused: float | None = None
    others: float | None = None

    @property
    def missing(self) -> float:
        """What was missing at the least: more may have been asked for afterwards."""
        return max(0.0, self.asked - self.free)

    @property
    def is_in_pieces(self) -> bool:
        """Whether what was asked for lies unused in pieces, and is not just the rest of a full GPU."""
        if self.unused is None or self.total is None:
            return False
        return self.unused >= max(self.asked, _MUCH_UNUSED * self.total)


def shortage_in(text: str) -> GpuShortage | None:
    """The numbers of PyTorch's message; None where it names not both what was asked for and what was free."""
    asked, free = _bytes(_ASKED, text), _bytes(_FREE, text)
    if asked is None or free is None:
        return None
    unused = _bytes(_UNALLOCATED, text)
    reserved, allocated = _bytes(_RESERVED, text), _bytes(_ALLOCATED, text)
    if unused is None and reserved is not None and allocated is not None:
        unused = reserved - allocated
    # In a container a process may not know itself by its number: then nobody is known to be another one.
    others = sum(map(_in_bytes, _OF_OTHERS.findall(text))) if _OWN.search(text) else 0.0
    return GpuShortage(asked, free, _bytes(_TOTAL, text), unused, others or None)


def gpu_remedy(root: Sighting, job: AskedJob) -> str | None:
    """The next try for a GPU that was full; None where neither the line nor the job has a number for it."""
    shortage = shortage_in(root.text)
    rest = f"If that is not enough: {root.mode.remedy}"
    if shortage is not None and shortage.others is not None and shortage.others >= shortage.missing:
        return (
            f"Other processes hold {memory_in_words(shortage.others)} of this GPU, and {_missing(shortage)}: "
            "a process that an earlier run left, or ranks that share a GPU because they do not call "
            "torch.cuda.set_device(LOCAL_RANK) first. With the GPU to itself the rank may well fit."
        )
    if shortage is not None and shortage.is_in_pieces:
        return (
            f"PyTorch holds {memory_in_words(shortage.unused or 0)} that it does not use, in pieces too "
            f"small for the {memory_in_words(shortage.asked)}: set PYTORCH_CUDA_ALLOC_CONF to "
            f"expandable_segments:True in `environment`, which joins them. {rest}"
        )
    batch = job.number(BATCH_NAMES)
    if batch is None or batch.value == 0:
        return None
    short = "" if shortage is None else f" ({_missing(shortage)})"
    if _is_of_the_model(root):
        return (
            f"The model itself does not fit{short}, whatever {batch.name} ({batch.value}) is: load it in "
            "bf16, shard it (FSDP or SMP), or take a type with more memory on each GPU."
        )
    fewer = smaller_batch(batch.value, shortage)
    if fewer is None:
        return (
            f"{batch.name} is 1 already{short}: activation checkpointing, bf16, sharding (FSDP or SMP), or a "
            "type with more memory on each GPU."
        )
    return (
        f"Set {batch.name} to {fewer} instead of {batch.value}{short}, or keep {batch.value} with activation "
        f"checkpointing.{_whole_batch(batch, fewer, job)} {rest}"
    )


def smaller_batch(batch: int, shortage: GpuShortage | None) -> int | None:
    """The batch to try next: three quarters of it where little is known to be missing, else half; None for
    a batch of one."""
    if batch < 2:
        return None
    known = shortage is not None and shortage.total
    little = known and shortage is not None and shortage.missing < _A_LITTLE * (shortage.total or 0.0)
    fewer = batch * 3 // 4 if little else batch // 2
    return fewer - fewer % 8 if batch >= _SMALLEST_ROUND else fewer


def _whole_batch(batch: GivenNumber, fewer: int, job: AskedJob) -> str:
    """What becomes of the batch of all ranks, where its name says that it is one process's."""
    if not batch.plain_name.startswith("per_device") or fewer * 2 != batch.value:
        return ""
    steps = job.number(("gradient_accumulation_steps",))
    if steps is None:
        return ""
    return (
        f" With {steps.name} {steps.value * 2} instead of {steps.value} a step learns from as many samples."
    )


def _is_of_the_model(root: Sighting) -> bool:
    """Whether the innermost line of the user's code moves or wraps a model."""
    code = next((each for each in root.details if root.place and each.startswith(f"{root.place}: ")), "")
    return _MOVES_WEIGHTS.search(code) is not None and _MOVES_A_BATCH.search(code) is None


def _missing(shortage: GpuShortage) -> str:
    whole = "" if shortage.total is None else f" of {memory_in_words(shortage.total)}"
    return f"at least {memory_in_words(shortage.missing)}{whole} is missing"


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return None if found is None else _in_bytes(next(each for each in found.groups() if each))


def _in_bytes(size: str) -> float:
    number = size.rstrip("KMGTiBbytes ")
    unit = size[len(number) :].strip()
    return float(number) * _UNITS[unit[0] if unit[0] in _UNITS else ""]


_PATH = re.compile(r"'(/[^']{1,4096})'")
_ON_THE_DISK = ("/opt/ml", "/tmp")
"""What lies on the volume, or on the disks of a type that has some (DISK001)."""


def fewer_workers(root: Sighting, job: AskedJob) -> str | None:
    """Half of the DataLoader workers; None where nobody knows how many there are."""
    workers = job.number(WORKER_NAMES)
    if workers is None or workers.value == 0:
        return None
    processes, facts = job.processes_per_host, job.facts
    counted = ""
    if processes is not None and processes > 1:
        cpus = f", which has {facts.vcpus} vCPUs" if facts is not None else ""
        counted = f": {processes} processes start {processes * workers.value} of them on each host{cpus}"
    return (
        f"Set {workers.name} to {workers.value // 2} instead of {workers.value}{counted}. {root.mode.remedy}"
    )


def larger_disk(root: Sighting, job: AskedJob) -> str | None:
    """Twice the volume, or that the disks of the type are all there is; None where the full disk may be
    another one."""
    path = _PATH.search(root.text)
    elsewhere = path is not None and not path[1].startswith(_ON_THE_DISK)
    if job.facts is None or elsewhere or "quota" in root.text.lower():
        return None
    if job.facts.local_nvme_gb:
        return (
            f"{job.instance_type} has {job.facts.local_nvme_gb} GB of disks of its own, and "
            f"resources.volume_size_gb adds nothing to them. {root.mode.remedy}"
        )
    if job.volume_size_gb is None:
        return None
    return (
        f"Raise resources.volume_size_gb, which is {job.volume_size_gb}, such as to "
        f"{job.volume_size_gb * 2}. {root.mode.remedy}"
    )


def process_for_each_device(root: Sighting, job: AskedJob) -> str | None:
    """How many processes there are against the devices of the type; None where both agree or one is not
    known."""
    facts, processes = job.facts, job.processes_per_host
    if facts is None or processes is None or not facts.accelerators or processes == facts.processes_per_host:
        return None
    return (
        f"Set distribution.processes_per_host to {facts.processes_per_host} instead of {processes}, or leave "
        f"it out: {facts.instance_type} has so many. {root.mode.remedy}"
    )


_BY_HOST: Mapping[str, Callable[[Sighting, AskedJob], str | None]] = {
    hardware.CUDA_OUT_OF_MEMORY.code: gpu_remedy,
    hardware.HOST_OUT_OF_MEMORY.code: fewer_workers,
    data.LOADER_WORKER_KILLED.code: fewer_workers,
    data.DESCRIPTORS_USED_UP.code: fewer_workers,
    disk.DISK_FULL.code: larger_disk,
    distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code: process_for_each_device,
    distribution.MORE_PROCESSES_THAN_DEVICES.code: process_for_each_device,
    capacity.QUOTA_TOO_SMALL.code: lambda root, _: larger_quota(root),
}


def remedy_with_numbers(root: Sighting, others: Sequence[Sighting], job: AskedJob) -> str | None:
    """What to do with this job's numbers; None where none is known, or the line calls for something else.

    `others` are the signs beside the root cause.
    """
    if root.remedy is not None:
        return None
    if root.mode is nccl.COLLECTIVE_TIMED_OUT:
        return longer_timeout(root, job, [sign for sign in others if sign.mode is root.mode])
    rule = _BY_HOST.get(root.code)
    return None if rule is None else rule(root, job)


_OF_GROUP = re.compile(r"\bTimeout\(ms\)=(\d{1,12})\)")
"""What the work of ProcessGroupNCCL says of its group (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)."""

_WAITED = re.compile(r"\bran for (\d{1,12}) milliseconds\b")
_WITHOUT_A_STEP = re.compile(r"no rank has made a step for (\d{1,9}) s \(limit (\d{1,9}) s\)")
"""What the boot's watchdog says (slipway/watchdog/judge_stall.py)."""

_QUOTA = re.compile(
    r"limit '(?P<limit>[^']{1,200})' is (?P<allowed>\d{1,9}) \w{1,40}, with current utilization of "
    r"(?P<used>\d{1,9}) \w{1,40} and a request delta of (?P<wanted>\d{1,9})\b"
)
"""What SageMaker says where a quota is too small (ResourceLimitExceeded)."""


def longer_timeout(root: Sighting, job: AskedJob, alike: Sequence[Sighting] = ()) -> str | None:
    """How long it waited and what the limit was; None where no line tells the limit.

    `alike` are the other signs of the mode: the line with the times need not be the first one.
    """
    texts = [sign.text for sign in (root, *alike)]
    if still := _first(_WITHOUT_A_STEP, texts):
        waited, stall = map(exact_duration, map(int, still.groups()))
        said = f"The watchdog waited {waited} for a step; its limit (watchdog.stall) was {stall}."
        return f"{said} {root.mode.remedy}"
    group, waited_for = _first(_OF_GROUP, texts), _first(_WAITED, texts)
    if group is None:
        return None
    limit = exact_duration(int(group[1]) // 1000)
    said = f"The process group's limit is {limit}"
    if waited_for is not None:
        said = f"It waited {exact_duration(int(waited_for[1]) // 1000)}; the process group's limit is {limit}"
    given = job.number(("ddp_timeout",))
    which = f" That limit is {given.name}, which is {given.value}." if given is not None else ""
    return f"{said}. {root.mode.remedy}{which}"


def larger_quota(root: Sighting) -> str | None:
    """To how much the quota has to be raised for this job; None where the service does not say."""
    said = _QUOTA.search(root.text)
    if said is None:
        return None
    needed = int(said["used"]) + int(said["wanted"])
    instance_type = said["limit"].partition(" ")[0]
    return (
        f"Request an increase of '{said['limit']}' in Service Quotas from {said['allowed']} to at least "
        f"{needed} ({said['used']} in use, {said['wanted']} for this job), stop jobs and warm pools that "
        "hold it, or use fewer hosts or another type."
        + find_hint(instance_type, int(said["wanted"]), live=True)
    )


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> re.Match[str] | None:
    return next((found for text in texts if (found := pattern.search(text))), None)


@frozen
class AskedJob:
    """What the request of a job says; None is what nobody knows.

    `hyperparameters` and `arguments` are what the script was given; of them only numbers of known names are
    ever told. `volume_size_gb` is the volume that was asked for, also where the type has disks of its own.
    """

    instance_type: str | None = None
    processes_per_host: int | None = None
    volume_size_gb: int | None = None
    hyperparameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    arguments: tuple[str, ...] = field(default=(), repr=False)

    @property
    def facts(self) -> InstanceFacts | None:
        """What the hosts have; None for an unknown type."""
        return instance_facts(self.instance_type or "")

    def number(self, names: Sequence[str]) -> GivenNumber | None:
        """The number of the first of these names that the script was given.

        A name that was given twice with different values tells nothing.
        """
        numbers = tuple(find_given_numbers(self.hyperparameters, self.arguments))
        for name in names:
            known = {each.value: each for each in reversed(numbers) if each.plain_name == name}
            if len(known) == 1:
                return next(iter(known.values()))
        return None


NOTHING_ASKED: Final = AskedJob()
"""A job of which only its lines are known."""
