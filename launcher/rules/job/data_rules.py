"""Rules on a job's data, memory and checkpoints: whether they fit, and get to every rank alike.

How a job divides its batches and its model over the ranks is said by the degrees of the model parallel
library. Version 1: `pipeline_parallel_degree` (or `partitions`), `tensor_parallel_degree`,
`sharded_data_parallel_degree`, `shard_optimizer_state`. Version 2: `hybrid_shard_degree` (0, the default:
over all ranks), `tensor_parallel_degree`, `context_parallel_degree`. Source: Amazon SageMaker developer
guide, distributed-model-parallel-v2-reference and the version 1 API.

SageMaker Debugger stands here because of checkpoints: where the plan turns it off, the user is told why;
where it is on, what AWS says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from math import prod

from launcher.cluster.manifest import Lustre
from launcher.failure_modes import (
    checkpoints,
    data,
    debugger,
    distribution,
    hardware,
    job_file,
    notices,
    storage,
)
from launcher.failure_modes.model import FailureMode, Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.load_job import with_folders
from launcher.jobs.script_inputs import (
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    GivenNumber,
    channel_folder,
    find_given_numbers,
)
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.strategies.strategy import smp_degree, smp_parameters
from launcher.program.dataflow import argument_of, calculate_number, text_beginning
from launcher.program.index import file_of
from launcher.program.ranks.reachability import surely_runs
from launcher.program.values import Several, WorldSize
from launcher.rules.job.subject import JobSubject
from launcher.rules.shared_facts import LARGE_DATASET_BYTES, disk_bytes
from launcher.text.values import gibibytes, gigabytes

# The size of the training set against the way in which it reaches the hosts.


@finds(Stage.SPEC, storage.LARGE_DATASET_IN_FILE_MODE)
def large_data_is_not_downloaded(subject: JobSubject) -> Iterator[Finding]:
    """File mode downloads all of it before the script starts.

    Judged only where all inputs are read so: with others among them nobody knows which holds the data.
    """
    inputs, data = subject.job.inputs, subject.job.data
    downloaded = all(source.s3_uri is not None and source.mode == "File" for source in inputs.values())
    if data is None or data.size is None or not inputs or not downloaded:
        return
    sharded = all(source.distribution == "ShardedByS3Key" for source in inputs.values())
    size = data.size / (subject.job.resources.instance_count if sharded else 1)
    disk = disk_bytes(subject.facts, subject.job.resources.volume_size_gb)
    too_large = disk is not None and size > disk
    if size <= LARGE_DATASET_BYTES and not too_large:
        return
    fits = f"; it does not fit on its {gigabytes(disk)} of disk" if disk is not None and too_large else ""
    yield storage.LARGE_DATASET_IN_FILE_MODE.at(
        ("data", "size"),
        f"each host downloads {gigabytes(size)} from S3 before the script starts, at every start and "
        f"retry, and all hosts are billed meanwhile{fits}",
    )


# Whether every rank gets the same number of batches.


@finds(Stage.SPEC, data.UNEVEN_BATCHES)
def batches_are_even(subject: JobSubject) -> Iterator[Finding]:
    """Samples over ranks and batches: how many are left over, and what becomes of them.

    A DistributedSampler evens the ranks out by itself, so that no rank waits for another then.
    """
    given, ranks = subject.job.data, data_parallel_size(subject)
    if given is None or given.samples is None or ranks is None or ranks < 2:
        return
    samples, batch = given.samples, given.batch_size or 1
    if samples % (ranks * batch) == 0:
        return
    sampled = "DistributedSampler" in subject.names
    yield data.UNEVEN_BATCHES.at(
        ("data", "samples"),
        _with_sampler(samples, ranks, given.batch_size)
        if sampled
        else _without_sampler(samples, ranks, given.batch_size),
        severity=Severity.INFO if sampled else Severity.WARNING,
    )


@finds(Stage.SPEC, data.UNEVEN_BATCHES)
def objects_are_not_sharded_unevenly(subject: JobSubject) -> Iterator[Finding]:
    """ShardedByS3Key deals out objects, not samples; a sampler would divide what is left once more."""
    hosts = subject.job.resources.instance_count
    if hosts < 2:
        return
    sampled = "DistributedSampler" in subject.names
    for name, source in subject.job.inputs.items():
        if source.s3_uri is None or source.distribution != "ShardedByS3Key":
            continue
        consequence = (
            f"the script's DistributedSampler divides each host's part by all ranks again, so that at most "
            f"one sample in {hosts} is ever read, and hosts differ in their number of batches"
            if sampled
            else "ranks then get as many batches as their host's objects hold; those with fewer stop first, "
            "and the others wait for them until the timeout"
        )
        yield data.UNEVEN_BATCHES.at(
            ("inputs", name, "distribution"),
            f"the input {name} is ShardedByS3Key over {hosts} hosts: {consequence}",
            remedy="Use FullyReplicated (or FastFile) with a DistributedSampler, or a sampler over the ranks "
            "of the host alone with the number of batches cut to the smallest of all ranks.",
            severity=Severity.WARNING,
        )


def _with_sampler(samples: int, ranks: int, batch: int | None) -> str:
    dropped, share = samples % ranks, -(-samples // ranks)
    text = f"{samples:,} samples over {ranks} ranks are {share:,} each"
    if dropped:
        text += (
            f": the DistributedSampler repeats {ranks - dropped} to make them even, or leaves out {dropped} "
            "with its drop_last=True"
        )
    rest = share % batch if batch else 0
    if batch and rest:
        text += (
            f"; in batches of {batch} the last of {-(-share // batch):,} holds {rest}, and a DataLoader with "
            f"drop_last=True leaves out {rest * ranks} samples an epoch. No rank waits for another"
        )
    return text


def _without_sampler(samples: int, ranks: int, batch: int | None) -> str:
    step = ranks * (batch or 1)
    over = samples % step
    unit = f"{ranks} ranks x {batch} per batch" if batch else f"{ranks} ranks"
    return (
        f"{samples:,} samples are not a multiple of {step:,} ({unit}): {over:,} are left over, or "
        f"{step - over:,} must be repeated. The source has no DistributedSampler that does so; ranks with "
        "one batch more would wait for the others at the end of the epoch"
    )


# The memory of parameters, gradients and optimizer state against that of the accelerators.


WEIGHT_AND_GRADIENT_BYTES, OPTIMIZER_BYTES = 4, 12
"""For each parameter, with Adam in mixed precision: a 2-byte weight and gradient; a 4-byte weight,
momentum and variance (ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, section 3.1).
"""

FULL_SHARE = 0.85
"""The share of the memory beyond which next to nothing is left for activations: CUDA's context, NCCL's and
DDP's buffers take their part of the rest."""

_ANOTHER_STATE = re.compile(
    r"fsdp|deepspeed|zero[_-]?(?:stage|[123])|lora|peft|offload|8bit|quanti[sz]|device_mesh|parallelize"
    r"|(?:tensor|pipeline|model)[_-]?(?:model[_-]?)?parallel|\.(?:bfloat16|half)\(|torch_dtype|\.to\([^()]*float16",
    re.IGNORECASE,
)
_SMALL_STATE = re.compile(r"\b(?:SGD|Adafactor|Lion|Muon)\b")
_COMMENT = re.compile(r"#.*")


@finds(Stage.SPEC, hardware.CLOSE_TO_MEMORY_LIMIT)
def state_leaves_room(subject: JobSubject) -> Iterator[Finding]:
    """Rough on purpose: activations, buffers and fragmentation come on top of it."""
    model, shards, memory = subject.job.model, state_shards(subject), _memory_per_process(subject)
    if model is None or shards is None or memory is None or _has_another_state(subject):
        return
    needed = model.parameters * (WEIGHT_AND_GRADIENT_BYTES / shards[0] + OPTIMIZER_BYTES / shards[1])
    if needed <= FULL_SHARE * memory:
        return
    world = subject.plan.world_size or 1
    yield hardware.CLOSE_TO_MEMORY_LIMIT.at(
        ("model", "parameters"),
        f"{model.parameters / 1e9:g} billion parameters x {_terms(*shards)} bytes (weight and gradient, "
        f"optimizer state of Adam in mixed precision) = {gibibytes(needed)} on each of {world} ranks, and "
        f"{subject.job.resources.instance_type} has {gibibytes(memory)} for one: "
        + ("it would run out of memory" if needed > memory else "activations would hardly fit in the rest"),
        remedy=_memory_remedy(model.parameters, shards, world, memory),
    )


def _has_another_state(subject: JobSubject) -> bool:
    """Whether the job or its script says of a state that is divided, offloaded or smaller in other ways."""
    job = subject.job
    words = (*job.hyperparameters.items(), *job.environment.items(), *job.code.arguments)
    if _ANOTHER_STATE.search(str(words)):
        return True
    if subject.program is None or state_shards(subject) != (1, 1):
        return False
    code = _code_of(subject)
    return bool(_ANOTHER_STATE.search(code) or (_SMALL_STATE.search(code) and "Adam" not in code))


def _code_of(subject: JobSubject) -> str:
    """The text of the script and its modules without comments; empty where it cannot be read."""
    files = subject.program.files if subject.program is not None else ()
    return "\n".join(_COMMENT.sub("", file.text) for file in files)


def _memory_per_process(subject: JobSubject) -> float | None:
    facts, processes = subject.facts, subject.plan.processes_per_host
    if facts is None or processes is None or not facts.accelerators or facts.accelerator_memory_mib is None:
        return None
    of_host = facts.accelerators * facts.accelerator_memory_mib * 2**20
    # A single process may use all accelerators; several use at most one each.
    if subject.job.distribution.strategy is Strategy.NONE:
        return float(of_host)
    return of_host / max(processes, facts.accelerators)


def _terms(weights: int, optimizer: int) -> str:
    if weights == optimizer == 1:
        return f"{WEIGHT_AND_GRADIENT_BYTES + OPTIMIZER_BYTES}"
    return f"({WEIGHT_AND_GRADIENT_BYTES}/{weights} + {OPTIMIZER_BYTES}/{optimizer})"


def _memory_remedy(parameters: float, shards: tuple[int, int], world: int, memory: float) -> str:
    total = parameters * (WEIGHT_AND_GRADIENT_BYTES + OPTIMIZER_BYTES)
    least = int(-(-total // (FULL_SHARE * memory)))
    if min(shards) < world and world >= least:
        return f"Shard the state, with FSDP: over all {world} ranks it is {gibibytes(total / world)} each."
    return (
        f"Shard it over at least {least} ranks of this type (more hosts, with FSDP), take a type with more "
        "memory, or an optimizer with less state."
    )


# How a job divides its batches and its model over the ranks.


_DEGREE = re.compile(
    r"(?P<owner>(?:.*\.)?)(?:(?:ulysses_)?(?:tensor|pipeline|context|sequence)(?:_model)?_parallel|(?:[tpc]p|ulysses)(?=_))"
    r"(?:_(?:world_)?size|_degree)?"
)
_EXPERT_DEGREE = re.compile(r"(?:.*\.)?(?:expert(?:_model)?_parallel|ep(?=_))(?:_(?:world_)?size|_degree)?")

_OF_INFERENCE = re.compile(r"rollout|vllm|infer|generat|eval")


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def given_degrees_divide_the_ranks(subject: JobSubject) -> Iterator[Finding]:
    """What Megatron, NeMo, DeepSpeed and others are told by hyperparameter or argument, by its name.

    A warning, as only the script knows what it does with the number. Source: Megatron-LM,
    parallel_state.initialize_model_parallel, which refuses what does not divide.
    """
    job, ranks = subject.job, subject.plan.world_size
    if ranks is None or subject.here or job.distribution.strategy in (Strategy.NONE, Strategy.SMP):
        return
    given = list(find_given_numbers(job.hyperparameters, job.code.arguments))
    groups: dict[str, list[GivenNumber]] = {}
    for each in given:
        name = each.name.replace("-", "_").lower()
        found = _DEGREE.fullmatch(name)
        if not _OF_INFERENCE.search(name) and (found or _EXPERT_DEGREE.fullmatch(name)):
            groups.setdefault(found["owner"] if found else name, []).append(each)
    for group in groups.values():
        grouping = [each for each in group if each.value > 1]
        product = prod(each.value for each in grouping)
        if ranks % product:
            factors = " x ".join(f"{each.name} {each.value}" for each in grouping)
            yield distribution.DEGREES_DO_NOT_DIVIDE.at(
                grouping[0].path,
                f"{factors}{f' = {product}' if len(grouping) > 1 else ''} does not divide the world size "
                f"{ranks} ({job.resources.instance_count} hosts)",
                remedy="Choose degrees whose product divides it, or change the number of hosts.",
                severity=Severity.WARNING,
            )


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def meshes_have_as_many_devices_as_ranks(subject: JobSubject) -> Iterator[Finding]:
    """`init_device_mesh` with a shape that is written out: a mesh takes every rank, once."""
    program, ranks = subject.program, subject.plan.world_size
    if program is None or ranks is None or subject.here or subject.starts_ranks:
        return

    def all_ranks(part: ast.expr) -> float | None:
        size = None if isinstance(part, ast.BinOp) else program.value(part)
        return ranks if isinstance(size, WorldSize) and "LOCAL" not in size.source.upper() else None

    for call, _ in program.calls("torch.distributed.device_mesh.init_device_mesh"):
        shape = argument_of(call, "mesh_shape", 1)
        several = program.value(shape) if shape is not None else None
        elements = several.node.elts if isinstance(several, Several) else []
        sizes = [calculate_number(program, each, all_ranks) for each in elements]
        known = [int(each) for each in sizes if each is not None]
        if not known or len(known) < len(sizes) or prod(known) == ranks or not surely_runs(program, call):
            continue
        yield distribution.DEGREES_DO_NOT_DIVIDE.finding(
            Stage.SPEC,
            f"the mesh {' x '.join(map(str, known))} has {prod(known)} places, and "
            f"the job {ranks} ranks ({subject.job.resources.instance_count} hosts)",
            remedy="Take the last size from the world size, or change the number of hosts.",
            location=file_of(call).location(call),
            subject="resources.instance_count",
            severity=None if prod(known) > ranks else Severity.WARNING,
        )


def data_parallel_size(subject: JobSubject) -> int | None:
    """How many different batches a step reads; None where it is not known or the degrees do not fit."""
    job, world_size = subject.job, subject.plan.world_size
    if world_size is None or job.distribution.smp_version is None:
        return world_size
    shared = _model_parallel(job) * smp_degree(job, "context_parallel_degree")
    return world_size // shared if world_size % shared == 0 else None


def state_shards(subject: JobSubject) -> tuple[int, int] | None:
    """Over how many ranks the weights with their gradients, and the optimizer states, are divided.

    None where the number of ranks is not known.
    """
    world_size = subject.plan.world_size
    if world_size is None:
        return None
    if subject.job.distribution.smp_version is not None:
        return _model_parallel_shards(subject.job, world_size)
    if subject.names & {"FullyShardedDataParallel", "fully_shard", "deepspeed"}:
        return world_size, world_size
    return 1, world_size if "ZeroRedundancyOptimizer" in subject.names else 1


def _model_parallel_shards(job: JobSpec, world_size: int) -> tuple[int, int]:
    split = _model_parallel(job)
    if job.distribution.smp_version == 1:
        shards = split * smp_degree(job, "sharded_data_parallel_degree")
        replicated = max(1, world_size // shards)
        return shards, shards * (replicated if smp_parameters(job).get("shard_optimizer_state") else 1)
    hybrid = smp_degree(job, "hybrid_shard_degree", default=0)
    shards = hybrid * split if hybrid else world_size
    return shards, shards


def _model_parallel(job: JobSpec) -> int:
    """Over how many ranks one copy of the model is split."""
    tensor = smp_degree(job, "tensor_parallel_degree")
    if job.distribution.smp_version == 2:
        return tensor
    return tensor * smp_degree(job, "pipeline_parallel_degree", default=smp_degree(job, "partitions"))


# Checkpoints: whether there are any, who moves them, and whether their place fits the model and the job.


LARGE_MODEL_PARAMETERS = 10e9
"""Beyond this AWS recommends FSx for Lustre for checkpoints (developer guide,
distributed-troubleshooting-model-parallel)."""


@finds(Stage.SPEC, checkpoints.LARGE_MODEL_WITHOUT_LUSTRE)
def large_checkpoints_go_to_lustre(subject: JobSubject) -> Iterator[Finding]:
    """The checkpoint of a large model keeps the accelerators waiting on its way to S3."""
    model, planned = subject.job.model, subject.plan.checkpoints
    if model is None or model.parameters <= LARGE_MODEL_PARAMETERS:
        return
    if subject.writes_to_lustre or (planned is not None and planned.lustre is not None):
        return
    low, high = (model.parameters * size / 1e9 for size in (12, 16))
    yield checkpoints.LARGE_MODEL_WITHOUT_LUSTRE.at(
        ("checkpoint",) if subject.job.checkpoint else ("model", "parameters"),
        f"{model.parameters / 1e9:g} billion parameters make a checkpoint of {low:,.0f} to {high:,.0f} GB "
        "(12 to 16 bytes each), and it is not written to FSx for Lustre: saving keeps all ranks waiting, "
        "and the upload to S3 may fail",
        remedy="Put them on the cluster's file system, `checkpoint: {lustre: /checkpoints}`, and save there, "
        "sharded, with torch.distributed.checkpoint.",
        subject="checkpoint",
    )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def checkpoint_directory_is_made(subject: JobSubject) -> Iterator[Finding]:
    """On Lustre each job has a directory of its own, which the boot makes, but no other launcher."""
    planned = subject.plan.checkpoints
    if planned is not None and planned.lustre is not None and not subject.plan.with_boot:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "lustre"),
            f"the directory for checkpoints below {planned.lustre} does not exist when the script starts: "
            "the images' toolkit, which starts it, does not create it",
            remedy="Let the script make it before it saves: "
            f'os.makedirs(os.environ["{CHECKPOINT_DIR_VARIABLE}"], exist_ok=True).',
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_has_a_checkpoint(subject: JobSubject) -> Iterator[Finding]:
    """Spot interruptions and retries start the script from the beginning."""
    if subject.plan.checkpoints is not None or subject.writes_to_lustre:
        return
    restarts = []
    if subject.job.resources.capacity.kind == "spot":
        restarts.append(("resources", "capacity", "`capacity: spot` may be interrupted at any time"))
    if subject.job.limits.max_retries:
        retries = subject.job.limits.max_retries
        restarts.append(("limits", "max_retries", f"`max_retries: {retries}` starts the script again"))
    for section, field, why in restarts:
        yield checkpoints.NOTHING_TO_RESUME_FROM.at(
            (section, field),
            f"{why}, and no checkpoint is configured: all work until then would be lost and paid for twice",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def own_sync_is_in_the_script(subject: JobSubject) -> Iterator[Finding]:
    """With `sync: slipway` the boot copies checkpoints; where it starts nothing, the script has to."""
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.sync == "slipway" and not subject.plan.with_boot:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "sync"),
            "checkpoint.sync: slipway takes checkpoints out of the service's hands, and the images' toolkit, "
            "which starts this strategy, copies none: what the script itself does not upload to the prefix "
            f"in {CHECKPOINT_URI_VARIABLE} is lost with the hosts",
            remedy="Leave `sync` out, use torchrun, smp version 2 or none, or let the script upload there "
            "and check every result.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def training_jobs_share_no_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """All training jobs are made from one request, with one place for checkpoints.

    SageMaker's developer guide (model-checkpoints) mentions no part that the service adds to the prefix.
    """
    job = subject.job
    if job.tuning is None:
        return
    if job.checkpoint is not None:
        place = "directory" if job.checkpoint.lustre is not None else "prefix"
        yield checkpoints.PREFIX_NOT_UNIQUE.at(
            ("checkpoint",),
            f"all {job.tuning.jobs} training jobs would have one {place} for checkpoints: each would "
            "start from what another has saved with other hyperparameters, and overwrite it",
            remedy="Remove `checkpoint`. A script that keeps the jobs apart by itself, by the name in "
            "TRAINING_JOB_NAME, may accept it with `ignore: [CKPT001]`.",
        )
    elif job.cluster is not None:
        yield checkpoints.PREFIX_NOT_UNIQUE.at(
            ("tuning",),
            "checkpoints are off: all training jobs of a tuning job would have the same prefix in the "
            "cluster's bucket",
            remedy="Keep the training jobs short; each begins from the start when it is interrupted.",
            severity=Severity.INFO,
        )


_CHECKPOINTS = re.compile(r"ckpt|checkpoint|snapshot")
_SAVED_TO = re.compile(r"(?:save|output|out|work|run)_?(?:dir|path|folder|root|uri|to)")
_READ_FROM = re.compile(r"load|resum|restor|init|pretrain|from|base|start|teacher|read|eval|test|warm|source")
_ONE_FILE = re.compile(r"\.(?:pt|pth|ckpt|bin|safetensors|onnx|npz|pkl|json|ya?ml|tar|gz|tgz|zip)/*$")
_WRITES_TO_S3 = re.compile(
    r"upload|put_object|s3fs|fsspec|smart_open|cloudpath|\bs3[\"', ]{1,4}(?:cp|sync)\b|save"
)
_TELLS_JOBS_APART = re.compile(
    r"job_?name|job_?id|job_?arn|SM_TRAINING_ENV|uuid|strftime|isoformat|\.now\(|utcnow|\.today\(|time_ns"
    r"|token_hex|run_?id|run_?name|run\.id|mkdtemp|resourceconfig",
    re.IGNORECASE,
)
_UPLOADS = {"upload_file": ("Key", 2), "upload_fileobj": ("Key", 2), "put_object": ("Key", None)}
_SAVES = {"torch.save": ("f", 1), "torch.distributed.checkpoint.save": ("checkpoint_id", None)}


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def shared_places_are_told(subject: JobSubject) -> Iterator[Finding]:
    """A place for checkpoints on S3 or Lustre that is the same in every job of this file.

    An information: whoever starts the job again may want just that. A warning for the jobs of a search, which
    run side by side. Silent where the script asks for its job's name, or for anything else by which one run
    differs from another.
    """
    job, fixed = subject.job, list(_fixed_saves(subject))
    given = [each for each in _given_texts(job) if _is_saved_to(subject, each[1], each[2])]
    if subject.here or not (given or fixed):
        return
    code = _code_of(subject)
    if _TELLS_JOBS_APART.search(code):
        return
    severity = Severity.INFO if job.tuning is None else Severity.WARNING
    remedy = (
        "Use `checkpoint`, which gives each job a place of its own, and `resume_from` to go on from that of "
        "another; or let the script put in the name of its job, TRAINING_JOB_NAME."
    )
    message = (
        "in every job of this file: one may start from what another has saved there, and two at once "
        "overwrite each other's checkpoints"
    )
    for path, name, value in given:
        if not (value.startswith("s3:") and _only_reads_s3(code)):
            yield checkpoints.PREFIX_NOT_UNIQUE.at(
                path, f"{name} is {value} {message}", remedy=remedy, severity=severity
            )
    for call, place in fixed:
        yield checkpoints.PREFIX_NOT_UNIQUE.finding(
            Stage.SPEC,
            f"the script saves to {place} {message}",
            remedy=remedy,
            severity=severity,
            location=file_of(call).location(call),
            subject="code",
        )


def _is_saved_to(subject: JobSubject, name: str, value: str) -> bool:
    """Whether what the script is given by this name is a folder for checkpoints that outlives the job."""
    plain = name.lstrip("-").replace("-", "_").lower()
    on_s3 = value.startswith("s3://")
    if _READ_FROM.search(plain) or _ONE_FILE.search(value) or re.search(r"[{$%]", value):
        return False
    if not on_s3 and not f"{value.rstrip('/')}/".startswith(_written_mounts(subject.job)):
        return False
    return bool(_CHECKPOINTS.search(plain) or (_SAVED_TO.search(plain) and not on_s3))


def _only_reads_s3(code: str) -> bool:
    return bool(code) and not _WRITES_TO_S3.search(code)


def _written_mounts(job: JobSpec) -> tuple[str, ...]:
    """The folders in the container below which the script writes to Lustre."""
    return tuple(
        f"{channel_folder(name)}/" for name, each in job.inputs.items() if each.lustre and each.access == "rw"
    )


def _fixed_saves(subject: JobSubject) -> Iterator[tuple[ast.Call, str]]:
    """The calls that write a checkpoint to a place on S3 or Lustre that is written in the program."""
    program, mounts = subject.program, _written_mounts(subject.job)
    if program is None:
        return
    uploads = [
        (call, argument_of(call, *place))
        for file in program.files
        for name, place in _UPLOADS.items()
        for call in file.calls_of.get(name, ())
    ]
    saves = [(call, argument_of(call, *_SAVES[name])) for call, name in program.calls(*_SAVES)]
    for call, place in (*uploads, *saves):
        known = text_beginning(program, place) if place is not None else None
        if known is None or not _CHECKPOINTS.search(known[0].lower()):
            continue
        if (call, place) in uploads or known[0].startswith((*mounts, "s3://")):
            yield call, known[0]


def _given_texts(job: JobSpec) -> Iterator[tuple[Path, str, str]]:
    """What the script is given by a name: its place in the job file, the name and the text it gets."""
    given = with_folders(job)
    for name, value in given.environment.items():
        yield ("environment", name), name, value
    for name, value in given.hyperparameters.items():
        yield ("hyperparameters", name), name, str(value).strip('"')
    for index, (word, following) in enumerate(pairwise((*given.code.arguments, ""))):
        name, equals, value = word.partition("=")
        yield ("code", "arguments", index), name, value if equals else following


# The Lustre file system that a job mounts: where it lies, and which paths it has.


@finds(Stage.SPEC, storage.LUSTRE_IN_ANOTHER_ZONE)
def lustre_is_in_the_jobs_zone(subject: JobSubject) -> Iterator[Finding]:
    """The subnets that the user chose, or a cluster that has none in the file system's zone.

    Where the cluster has some, the plan chooses them. An information where nobody here knows the zones of
    several that were chosen.
    """
    cluster, given = subject.cluster, subject.job.network.subnets
    if not any(_lustre_paths(subject)) or (cluster is not None and cluster.lustre is None):
        return
    zones = {each.id: each.availability_zone for each in cluster.subnets} if cluster else {}
    if cluster is None or cluster.lustre is None or (len(given) > 1 and not zones.keys() & set(given)):
        if len(given) > 1 and subject.on_sagemaker:
            yield storage.LUSTRE_IN_ANOTHER_ZONE.at(
                ("network", "subnets"),
                f"the job may be placed in any of {len(given)} subnets, whose zones are not known here, and "
                "its file system is in one: from another it could not be mounted, or is read across zones",
                remedy="Keep those in the file system's zone alone, or leave `network.subnets` out, which "
                "takes the cluster's there.",
                severity=Severity.INFO,
                verified=False,
            )
        return
    home = cluster.lustre.availability_zone
    given = given or ([] if home in zones.values() else list(zones))
    elsewhere = [name for name in given if name in zones and zones[name] != home]
    if elsewhere:
        named = ", ".join(f"{name} in {zones[name]}" for name in elsewhere)
        yield storage.LUSTRE_IN_ANOTHER_ZONE.at(
            ("network", "subnets"),
            f"the job may be placed in {named}, but its file system {cluster.lustre.id} is in {home}: it "
            "would fail to mount it, or read across zones",
            remedy="Leave `network.subnets` out, or set it to the file system's own subnet, "
            f"{cluster.lustre.subnet_id}.",
        )


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def lustre_paths_are_below_the_mount(subject: JobSubject) -> Iterator[Finding]:
    """The plan puts the mount name before a path; it must stay below it, and not name it twice."""
    for field, path in _lustre_paths(subject):
        lustre = subject.cluster.lustre if subject.cluster else None
        problem, severity = _path_problem(path, lustre)
        if problem:
            yield storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
                field,
                f"{path} {problem}",
                severity=severity,
            )


def _lustre_paths(subject: JobSubject) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, source in subject.job.inputs.items():
        if source.lustre is not None:
            yield ("inputs", name, "lustre"), source.lustre
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.lustre is not None:
        yield ("checkpoint", "lustre"), checkpoint.lustre


def _path_problem(path: str, lustre: Lustre | None) -> tuple[str | None, Severity]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        return "leaves the file system's mount with `..`: the mount would be refused", Severity.ERROR
    if parts[:2] == ["opt", "ml"] or (parts and re.fullmatch(r"fs-[0-9a-f]{8,17}", parts[0])):
        return (
            "is a folder of the container, or begins with a file system's id, and no path below the mount, "
            "as /train: the job would fail unless there is a directory of that name",
            Severity.WARNING,
        )
    if lustre is not None and parts[:1] == [lustre.mount_name]:
        twice = f"/{lustre.mount_name}{path}"
        return (
            f"begins with the mount name, which the plan adds by itself: the job would mount {twice}, and "
            "fail unless there is a directory of that name",
            Severity.WARNING,
        )
    return None, Severity.ERROR


# SageMaker Debugger: where the plan turns it off, the user is told why; where it is on, what AWS says.


@finds(Stage.SPEC, debugger.WITH_CHECKPOINTS)
def debugger_off_with_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """Debugger, distributed training and the service's checkpoint upload do not go together.

    Beside the data parallel library, whose users meet the error with the SageMaker SDK, that Debugger is
    off is said even where nobody asked for it.
    """
    if subject.plan.debugger.conflict is not debugger.WITH_CHECKPOINTS:
        return
    strategy, hosts = subject.job.distribution.strategy, subject.job.resources.instance_count
    if subject.job.debugger or strategy is Strategy.SMDDP:
        distributed = f"{hosts} hosts" if strategy is Strategy.NONE else f"the strategy {strategy.value}"
        yield _debugger_off(
            subject,
            debugger.WITH_CHECKPOINTS,
            f"{distributed} with checkpoints to S3: the three together end the job with 'SMDebug "
            "Does Not Currently Support Distributed Training Jobs With Checkpointing Enabled'",
        )


@finds(Stage.SPEC, debugger.WITH_MODEL_PARALLEL)
def debugger_off_with_model_parallel(subject: JobSubject) -> Iterator[Finding]:
    """Debugger is not available for the model parallel library, in neither of its versions."""
    if subject.plan.debugger.conflict is debugger.WITH_MODEL_PARALLEL:
        yield _debugger_off(
            subject,
            debugger.WITH_MODEL_PARALLEL,
            "the model parallel library, which it breaks: the job would end with a FileNotFoundError on "
            "metadata.json.sagemaker-uploading",
        )


@finds(Stage.SPEC, debugger.NOT_OFFERED)
def debugger_is_offered(subject: JobSubject) -> Iterator[Finding]:
    """Off, and said, in a region without it; where it is on, that AWS lets only its old customers use it."""
    if subject.job.debugger and subject.plan.debugger.conflict is debugger.NOT_OFFERED:
        yield debugger.NOT_OFFERED.at(
            ("debugger",),
            f"`debugger: true` is not followed: by the SageMaker SDK's list, {subject.plan.region} has no "
            "Debugger, and the job could be refused",
            remedy="Remove it, or run the job in another region. The list can be older than AWS's offer.",
            severity=Severity.WARNING,
        )
    if subject.plan.debugger.on:
        yield debugger.NOT_OFFERED.at(("debugger",), notices.DEBUGGER_CLOSED.text)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def tuning_jobs_have_no_debugger(subject: JobSubject) -> Iterator[Finding]:
    """HyperParameterTrainingJobDefinition has no place for it (botocore service model)."""
    if subject.job.tuning is not None and subject.job.debugger:
        yield job_file.INVALID_VALUE.at(
            ("debugger",),
            "`debugger: true` is not followed: the API of tuning jobs does not take Debugger",
            remedy="Remove it, or run one job with the best values and the Debugger.",
            severity=Severity.WARNING,
        )


def _debugger_off(subject: JobSubject, mode: FailureMode, why: str) -> Finding:
    asked = subject.job.debugger
    return mode.at(
        ("debugger",) if asked else ("distribution", "strategy"),
        f"`debugger: true` is not followed: Debugger is turned off beside {why}"
        if asked
        else f"Debugger is off, as it cannot run beside {why}",
        severity=Severity.WARNING if asked else Severity.INFO,
        subject="debugger",
    )
