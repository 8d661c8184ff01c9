"""How the job is spread over hosts, processes and devices."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode

PROCESSES_DIFFER_FROM_ACCELERATORS = FailureMode(
    code="DIST001",
    title="processes per host differ from the accelerators per host",
    cause=(
        "With fewer processes than accelerators the idle ones are billed all the same, and a job on "
        "several hosts that leaves GPUs out can crash in network time-outs (SMP version 1 does). Without a "
        "`distribution` each host runs one process, whatever it has. With more processes than accelerators, "
        "two of them share a device."
    ),
    remedy=(
        "Leave `distribution.processes_per_host` out, which means all accelerators, or set it to their "
        "number: 8 on p3.16xlarge, p3dn, p4d and p5. Choose a smaller type if fewer are wanted."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.INSTANCE_TYPE_API),
)

UNSUPPORTED_COMBINATION = FailureMode(
    code="DIST002",
    title="strategy not supported on this instance type, framework or Python version",
    cause=(
        "The SageMaker libraries exist for few types and versions only: SMDDP for p3.16xlarge, p3dn, p4d "
        "and p4de up to PyTorch 2.3.1; SMP version 2 up to PyTorch 2.5.1; Training Compiler for PyTorch "
        "1.12 and 1.13 on GPUs. Elsewhere the job is refused, or the library fails at import once the "
        "hosts are billed."
    ),
    remedy=(
        "Use `strategy: torchrun`, which runs on every GPU type and PyTorch version, or choose a type, "
        "framework and Python version from the list that the finding names."
    ),
    sources=(
        sources.DATA_PARALLEL_SUPPORT,
        sources.MODEL_PARALLEL_SUPPORT,
        sources.TRAINING_COMPILER_SUPPORT,
        sources.PYTHON_SDK,
    ),
)

MORE_PROCESSES_THAN_DEVICES = FailureMode(
    code="DIST003",
    title="more processes than devices, or two on one device",
    cause=(
        "NCCL wants one process for each GPU. When there are more processes than GPUs, or every process "
        "takes cuda:0 because torch.cuda.set_device was not called, NCCL stops with 'Duplicate GPU "
        "detected', hangs, or the shared device runs out of memory."
    ),
    remedy=(
        "Start at most as many processes as the host has GPUs, and call "
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before init_process_group and before the "
        "first tensor on the GPU."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.SMP_PROCESSES_ISSUE, sources.TORCH_DISTRIBUTED),
)

DEGREES_DO_NOT_DIVIDE = FailureMode(
    code="DIST004",
    title="parallel degrees do not divide the world size",
    cause=(
        "Tensor, pipeline, context, expert and sharding degrees cut the ranks into equal groups, so their "
        "product must divide hosts times processes per host. Otherwise the library refuses to start on "
        "hosts that are already running."
    ),
    remedy=(
        "Change the degrees in `distribution.options`, or the number of hosts, so that the product divides "
        "the world size. Keep the tensor parallel degree within one host, where NVLink is."
    ),
    sources=(sources.MODEL_PARALLEL_SDK, sources.MODEL_PARALLEL_GUIDE),
)

SCRIPT_DOES_NOT_FIT_STRATEGY = FailureMode(
    code="DIST005",
    title="the script does not fit the strategy",
    cause=(
        "Under torchrun a script without init_process_group trains one whole model for each process and "
        "wastes all but one; one that calls mp.spawn starts processes squared. Training Compiler's launcher "
        "needs `_mp_fn(index)`, and SMDDP its own backend."
    ),
    remedy=(
        "torchrun: call init_process_group once and no mp.spawn. smddp: init_process_group with "
        "backend='smddp' after importing smdistributed.dataparallel.torch.torch_smddp. torch_xla: define "
        "`_mp_fn(index)`."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TORCH_RUN, sources.DATA_PARALLEL_GUIDE),
)

HARD_CODED_TOPOLOGY = FailureMode(
    code="DIST006",
    title="hard-coded master address, port, world size or device index",
    cause=(
        "MASTER_ADDR='localhost' makes every host wait for itself alone; a fixed port collides; a fixed "
        "world size or torch.cuda.device_count() in its place is wrong as soon as there are two hosts; "
        "cuda:0 puts every process on one GPU, and the global rank as a device index does not exist on the "
        "second host."
    ),
    remedy=(
        "Read MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK from the environment "
        "(init_method='env://' does), and take LOCAL_RANK, not RANK, as the device index."
    ),
    sources=(sources.DDP_GUIDE, sources.DDP_ERROR_ARTICLE, sources.TORCH_RUN),
)

LOCAL_RANK_AS_RANK = FailureMode(
    code="DIST007",
    title="LOCAL_RANK given as the rank: two hosts claim the same ranks",
    cause=(
        "LOCAL_RANK counts from 0 on each host. Given as `rank=` to init_process_group, it is right on one "
        "host, and on several each rank is claimed by as many processes: the start hangs until its time-out, "
        "since the ranks above never come. A sampler with it gives every host the same samples."
    ),
    remedy=(
        "Leave `rank` and `world_size` out, so that init_process_group reads RANK and WORLD_SIZE, which the "
        "launcher sets. LOCAL_RANK is the index of the device, and no more."
    ),
    sources=(sources.TORCH_RUN, sources.TORCH_DISTRIBUTED),
)

RANKS_NEVER_MET = FailureMode(
    code="DIST008",
    title="the ranks never met: independent trainings instead of one",
    cause=(
        "The job started N ranks, and none of them joined a process group with the others: each trains the "
        "whole model for itself, on all of the data. Nothing fails, the job ends as completed, and all "
        "hosts are paid for one training. A Lightning Trainer() that takes one device, a script without "
        "init_process_group, and strategy none on several hosts do this."
    ),
    remedy=(
        "PyTorch: call torch.distributed.init_process_group() and wrap the model in "
        "DistributedDataParallel or FSDP. Lightning: Trainer(devices=PROCESSES PER HOST, num_nodes=HOSTS, "
        "strategy='ddp'). Hugging Face: make TrainingArguments or Accelerator() in every rank. A program "
        "that is not distributed runs on one host with one process."
    ),
    sources=(sources.TORCH_RUN, sources.TORCH_DISTRIBUTED, sources.LIGHTNING_CLUSTER),
)
