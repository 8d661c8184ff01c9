"""How the data reaches the ranks: batches, samplers, loader workers, channels."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Severity

UNEVEN_BATCHES = FailureMode(
    code="DATA001",
    title="ranks get different numbers of batches: stall at the end of training",
    cause=(
        "Every backward pass averages the gradients over all ranks. A rank that runs out of batches leaves "
        "the loop, and the others wait for it in one batch more, until the timeout. Sharding by file, "
        "ShardedByS3Key and iterable datasets do this; a DistributedSampler does not, as it pads or drops "
        "to equal numbers, so drop_last does not prevent it."
    ),
    remedy=(
        "Use a DistributedSampler over the same data on every rank. For data that stays uneven wrap the "
        "loader in `slipway.even_batches`, which gives all ranks one number of batches; by hand: cut every "
        "rank to the smallest number (all_reduce with MIN before the epoch), or wrap the loop in "
        "torch.distributed.algorithms.Join."
    ),
    sources=(sources.DATA_PARALLEL_GUIDE, sources.TORCH_JOIN, sources.TRAINING_JOB_API),
)

FILES_UNSORTED = FailureMode(
    code="DATA002",
    title="input files read in an unsorted order",
    cause=(
        "os.listdir, glob and Path.iterdir answer in the order of the file system, which differs between "
        "hosts. Ranks that should share a file then work on different ones, shards overlap or leave gaps, "
        "and the loss does not converge."
    ),
    remedy=(
        "Sort: `sorted(glob.glob(pattern))`, before the list is shuffled with a common seed or sharded. "
        "`slipway.sorted_inputs` does it, and compares the lists of all ranks."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.PYTHON_LISTDIR),
)

NO_DISTRIBUTED_SAMPLER = FailureMode(
    code="DATA003",
    title="no distributed sampler",
    cause=(
        "A DataLoader without a DistributedSampler gives every rank the whole dataset: N processes do the "
        "same work N times over, an epoch gets no shorter with more hosts, and the GPUs are paid for "
        "nothing."
    ),
    remedy=(
        "Pass `sampler=DistributedSampler(dataset)` to the DataLoader instead of shuffle=True. An "
        "iterable dataset must split itself by rank and by worker."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.DDP_ERROR_ARTICLE, sources.TORCH_DATA),
)

SET_EPOCH_NEVER_CALLED = FailureMode(
    code="DATA004",
    title="set_epoch never called",
    cause=(
        "DistributedSampler shuffles by seed plus epoch number. If set_epoch is never called, that number "
        "stays 0 and every epoch repeats the same order, which costs accuracy without any error."
    ),
    remedy=(
        "Call `sampler.set_epoch(epoch)` at the start of every epoch, before the DataLoader is iterated."
    ),
    sources=(sources.DDP_ERROR_ARTICLE, sources.TORCH_DATA),
)

LOADER_WORKER_KILLED = FailureMode(
    code="DATA005",
    title="DataLoader worker killed: shared memory or fork",
    cause=(
        "Workers hand batches over through /dev/shm; when it is full they die of a bus error, when host "
        "memory is, of SIGKILL. A worker forked after CUDA or libfabric was initialised may abort or fail "
        "with 'Cannot allocate memory'. The rank's death then stalls all others."
    ),
    remedy=(
        "Lower num_workers, prefetch_factor (2 by default) or the batch; use "
        "multiprocessing_context='spawn' or 'forkserver'; with EFA and 'Cannot allocate memory' set "
        "FI_EFA_USE_HUGE_PAGE=0, which several hosts with GPUs and EFA are given and libfabric reads since "
        "1.19. /dev/shm cannot be remounted in a managed job, and "
        "CUDA_LAUNCH_BLOCKING has nothing to do with it."
    ),
    sources=(
        sources.DDP_GUIDE,
        sources.TORCH_DATA,
        sources.EFA_CHEATSHEET,
        sources.EFA_PLUGIN_ENVIRONMENT,
        sources.LIBFABRIC_EFA,
    ),
)

TOO_MANY_WORKERS = FailureMode(
    code="DATA006",
    title="more workers than CPUs per process",
    cause=(
        "num_workers counts for each process: 8 processes with 16 workers each are 128 on 96 vCPUs. They "
        "take time and memory from each other and from the training processes, and the GPUs wait for data."
    ),
    remedy=(
        "Use at most vCPUs divided by processes per host, less one for the training process; 11 on a "
        "p4d.24xlarge with 8 processes."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DATA, sources.INSTANCE_TYPE_API),
    severity=Severity.WARNING,
)

CHANNELS_DIFFER = FailureMode(
    code="DATA007",
    title="the script reads a channel that the job does not have, or the other way round",
    cause=(
        "A channel NAME appears as /opt/ml/input/data/NAME and SM_CHANNEL_NAME (in capitals). A script "
        "that reads another name fails with KeyError or FileNotFoundError once the hosts run; a channel "
        "that nobody reads is downloaded to every host for nothing."
    ),
    remedy=(
        "Give the channel in `inputs` the name that the script reads, or read the path from the "
        "SM_CHANNEL_ variable of that channel."
    ),
    sources=(sources.TRAINING_STORAGE, sources.TRAINING_DATA_ACCESS),
)

SAMPLER_SEED_DIFFERS = FailureMode(
    code="DATA008",
    title="the sampler's seed differs between ranks: samples overlap and others are never seen",
    cause=(
        "A DistributedSampler permutes the dataset by its seed, and each rank takes every N-th sample of the "
        "permutation. With another seed on each rank these are parts of different permutations: some samples "
        "are seen several times in an epoch, others not at all, and nothing fails."
    ),
    remedy=(
        "Give the sampler the same `seed` on every rank. Seeds that should differ, of dropout and "
        "augmentation, are set apart from it, with torch.manual_seed."
    ),
    sources=(sources.TORCH_DATA,),
)

EVERY_RANK_DOWNLOADS = FailureMode(
    code="DATA009",
    title="every rank downloads or unpacks into one folder",
    cause=(
        "All processes of a host find the dataset missing at the same moment, and write the same files at "
        "once. One reads what another has half written: archives are torn, checksums differ, unpacking "
        "fails, or training runs on truncated files. On several hosts the source gets as many requests as "
        "there are ranks."
    ),
    remedy=(
        "Have the dataset in a channel. Or download on one process of each host while the others wait: under "
        "`if local_rank == 0`, then `dist.barrier()`, then open the data on every rank with download=False."
    ),
    sources=(sources.TORCHVISION_DATASETS,),
)

DESCRIPTORS_USED_UP = FailureMode(
    code="DATA010",
    title="file descriptors or threads of the process are used up",
    cause=(
        "Workers hand each tensor of a batch over as a file descriptor, and every shard, socket and pipe "
        "takes one too: beyond the limit of open files a worker raises 'Too many open files' and the rank "
        "'received 0 items of ancdata'. Threads have a limit as well: each process opens as many for "
        "OpenBLAS and OpenMP as the host has vCPUs, and then none can be started."
    ),
    remedy=(
        "Hand batches over as files: torch.multiprocessing.set_sharing_strategy('file_system') at the top of "
        "the script, or collate a batch into few tensors; close what was opened, and lower num_workers. "
        "Against too many threads set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS in `environment`."
    ),
    sources=(sources.TORCH_DATA, sources.TORCH_WORKER_FILES),
)
