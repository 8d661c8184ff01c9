"""The whole catalogue: every failure mode by its code, in the order in which they are documented."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from launcher.failure_modes import (
    checkpoints,
    data,
    ddp,
    debugger,
    distribution,
    hardware,
    isolation,
    job_file,
    job_runtime,
    nccl,
    network,
    storage,
    training_compiler,
)
from launcher.failure_modes.model import FailureMode

FAMILIES: Final[Mapping[str, tuple[FailureMode, ...]]] = MappingProxyType(
    {
        "Network and EFA": (
            network.NO_INGRESS_FROM_ITSELF,
            network.NO_EGRESS_TO_ITSELF,
            network.NO_WAY_OUT,
            network.TOO_FEW_ADDRESSES,
            network.EFA_NOT_USED,
            network.HOSTS_WITHOUT_EFA,
            network.DEVICE_RDMA_FAILS,
        ),
        "NCCL and process groups": (
            nccl.FIGHTS_THE_PLUGIN,
            nccl.OBSOLETE_ENVIRONMENT,
            nccl.DEBUGGING_ENVIRONMENT,
            nccl.COLLECTIVE_TIMED_OUT,
            nccl.SYSTEM_ERROR,
            nccl.CLOSED_BY_PEER,
            nccl.INITIALISATION_STALLED,
            nccl.RENDEZVOUS_TIMED_OUT,
            nccl.PORT_IN_USE,
            nccl.VERSIONS_DIFFER,
            nccl.PEER_ACCESS_REFUSED,
            nccl.MPI_DAEMON_LOST,
        ),
        "Isolation and encryption": (
            isolation.ISOLATED_BUT_CALLS_OUT,
            isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC,
        ),
        "Distribution": (
            distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
            distribution.UNSUPPORTED_COMBINATION,
            distribution.MORE_PROCESSES_THAN_DEVICES,
            distribution.DEGREES_DO_NOT_DIVIDE,
            distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
            distribution.HARD_CODED_TOPOLOGY,
            distribution.LOCAL_RANK_AS_RANK,
            distribution.RANKS_NEVER_MET,
        ),
        "Debugger": (
            debugger.WITH_CHECKPOINTS,
            debugger.WITH_MODEL_PARALLEL,
            debugger.NOT_OFFERED,
        ),
        "Checkpoints": (
            checkpoints.PREFIX_NOT_UNIQUE,
            checkpoints.LARGE_MODEL_WITHOUT_LUSTRE,
            checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
            checkpoints.LARGE_UPLOAD_FAILS,
            checkpoints.UNEXPECTED_KEY_PREFIX,
            checkpoints.NOTHING_TO_RESUME_FROM,
            checkpoints.PATH_NOT_KEPT,
            checkpoints.RANKS_WRITE_SAME_FILE,
            checkpoints.NOT_WHAT_WAS_SAVED,
        ),
        "FSx and S3": (
            storage.LUSTRE_NOT_AVAILABLE,
            storage.LUSTRE_IN_ANOTHER_ZONE,
            storage.LUSTRE_PATH_OUTSIDE_MOUNT,
            storage.LUSTRE_PORTS_CLOSED,
            storage.LUSTRE_MOUNT_FAILED,
            storage.LARGE_DATASET_IN_FILE_MODE,
            storage.BUCKET_UNUSABLE,
            storage.S3_ACCESS_DENIED,
            storage.ROLE_INSUFFICIENT,
            storage.SECRET_UNREADABLE,
        ),
        "Data": (
            data.UNEVEN_BATCHES,
            data.FILES_UNSORTED,
            data.NO_DISTRIBUTED_SAMPLER,
            data.SET_EPOCH_NEVER_CALLED,
            data.LOADER_WORKER_KILLED,
            data.TOO_MANY_WORKERS,
            data.CHANNELS_DIFFER,
            data.SAMPLER_SEED_DIFFERS,
            data.EVERY_RANK_DOWNLOADS,
            data.DESCRIPTORS_USED_UP,
        ),
        "DDP": (
            ddp.REDUCTION_NOT_FINISHED,
            ddp.PARAMETERS_WITHOUT_GRADIENT,
            ddp.FIND_UNUSED_LEFT_ON,
            ddp.COLLECTIVE_UNDER_RANK_GUARD,
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            ddp.GROUP_NEVER_DESTROYED,
            ddp.ACCUMULATION_OR_CLIPPING_WRONG,
            ddp.COLLECTIVE_IN_EXCEPTION_HANDLER,
            ddp.GRADIENTS_NOT_REDUCED,
            ddp.ENGINE_NEVER_STEPPED,
        ),
        "Memory and hardware": (
            hardware.CUDA_OUT_OF_MEMORY,
            hardware.HOST_OUT_OF_MEMORY,
            hardware.CLOSE_TO_MEMORY_LIMIT,
            hardware.ECC_ERROR,
            hardware.GPU_FAULT,
            hardware.NEURON_RUNTIME_FAILS,
        ),
        "Training Compiler (torch_xla)": (
            training_compiler.GPU_NUM_DEVICES_WRONG,
            training_compiler.NO_MP_FN,
            training_compiler.NO_MARK_STEP,
            training_compiler.NO_MP_DEVICE_LOADER,
            training_compiler.GRADIENTS_NOT_REDUCED,
            training_compiler.NO_CONSTANT_SEED,
            training_compiler.DIVERGES_FROM_NATIVE,
            training_compiler.NO_GAIN_IN_TIME,
            training_compiler.NO_RELEASES,
        ),
        "Capacity, image, code": (
            job_runtime.NO_CAPACITY,
            job_runtime.QUOTA_TOO_SMALL,
            job_runtime.IMAGE_UNAVAILABLE,
            job_runtime.DRIVER_MISMATCH,
            job_runtime.EXTENSION_MISMATCH,
            job_runtime.SCRIPT_RAISED,
            job_runtime.ENTRY_POINT_MISSING,
            job_runtime.ENVIRONMENT_VALUE_NOT_STRING,
            job_runtime.NATIVE_CRASH,
            job_runtime.REQUIREMENT_MISSING,
            job_runtime.STOPPED,
            job_runtime.HUB_UNREACHABLE,
            job_runtime.DISK_FULL,
            job_runtime.SHARED_CACHE,
            job_runtime.LOSS_NOT_FINITE,
        ),
        "The job file itself": (
            job_file.UNREADABLE,
            job_file.UNKNOWN_FIELD,
            job_file.INVALID_VALUE,
            job_file.BREAKS_API_MODEL,
            job_file.CREDENTIAL,
        ),
    }
)
"""The families of the catalogue under their headings, each in the order of its codes."""

CATALOGUE: Final[Mapping[str, FailureMode]] = MappingProxyType(
    {mode.code: mode for family in FAMILIES.values() for mode in family}
)
"""Every failure mode, keyed by its code."""
