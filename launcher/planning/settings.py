"""The settings that a job's processes get, each with its reason and its source.

The aws-ofi-nccl plugin in the images configures NCCL for each instance type by itself, so this is mostly a
matter of not undoing that: only what depends on the job is set, and never over the user's value. Left alone
on purpose: TORCH_NCCL_ASYNC_ERROR_HANDLING (the flight recorder needs its default), TORCH_NCCL_BLOCKING_WAIT
(it switches the watchdog off that dumps the record) and PYTORCH_CUDA_ALLOC_CONF (the user's choice).

The network between and within hosts: since version 1.6 the plugin chooses provider and protocol by itself,
and since 1.7 libfabric's RDMA as well, so these are set for the older ones alone, in the images of PyTorch
2.0 and before. Where the plugin's version is not known, nothing of it is assumed. Left to plugin and NCCL on
purpose: algorithm, tuner, buffer and chunk sizes, FI_EFA_FORK_SAFE and NCCL_SOCKET_IFNAME (only the container
knows its interface). FI_EFA_SET_CUDA_SYNC_MEMOPS is set nowhere: it is for EFA installers before 1.29.1 with
NCCL 2.19 or later, and no image of AWS holds both (tags of aws/deep-learning-containers for PyTorch 1.13 to
2.4: the last older installer is 1.27.0 with NCCL 2.18.5, the next 1.30.0 with 2.19.4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Final

from packaging.version import Version

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import sources
from launcher.failure_modes.model import Source
from launcher.jobs.script_inputs import (
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    DEFAULT_CHECKPOINT_PATH,
    OUTPUT_DATA,
    SECRETS_VARIABLE,
)
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.image_choice import efa_plugin_version
from launcher.planning.images import ImageSoftware, torch_version
from launcher.planning.request_view import BUDGET_VARIABLE, CostLimit
from launcher.planning.training_plan import PlannedCheckpoints, Setting

FLIGHT_RECORDER_PATH = f"{OUTPUT_DATA}/flight_recorder/rank_"
"""Prefix of the flight recorder's dumps; the boot makes the folder."""

TOOLKIT_RECORDER_PATH = f"{OUTPUT_DATA}/flight_recorder_rank_"
"""The prefix where the image's toolkit starts the script: nobody makes a folder, so none is needed."""

CODE_DIGEST_VARIABLE = "SLIPWAY_CODE_SHA256"
"""By which the boot knows the code that was submitted (`slipway/script.py`)."""


_LIFE_OF_A_JOB = Source("Slipway: the life of a job (docs/life-of-a-job.md)", date(2026, 11, 22))
_ANOMALY = Source("PyTorch documentation: torch.autograd.set_detect_anomaly", date(2026, 11, 22))

# On torch that knows both names the newer one wins, so a user's older one would be overwritten.
_OLDER_NAMES = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}


def choose_settings(
    job: JobSpec,
    facts: InstanceFacts | None,
    processes_per_host: int,
    *,
    with_boot: bool,
    source_digest: str | None,
    checkpoints: PlannedCheckpoints | None,
    software: ImageSoftware | None,
    budget: CostLimit | None = None,
) -> list[Setting]:
    """The settings for a job; `facts` is None for an unknown instance type, `software` for an unknown image.

    Some depend on who starts the script (`with_boot`: the boot, else the image's toolkit), some on the
    place of the checkpoints; `source_digest` is that of the code (`SourceTree.digest`), None where it cannot
    be packed. Those that the user's environment overrides are among them, and say by what.
    """
    chosen = (
        *(_code_setting(source_digest) if with_boot and source_digest else ()),
        *(_secrets_setting(job) if with_boot else ()),
        *_budget_setting(budget),
        *_evidence_settings(job, with_boot),
        *_thread_settings(facts, processes_per_host),
        *choose_network_settings(job, facts, software),
        *_compiler_settings(job, facts, processes_per_host),
        *(_debug_settings(facts, with_boot) if job.profile == "debug" else ()),
        *_checkpoint_settings(checkpoints, with_boot),
    )
    tensorflow = job.framework is not None and job.framework.name == "tensorflow"
    return [
        _without_users_own(job.environment, setting)
        for setting in chosen
        if not (tensorflow and setting.name.startswith("TORCH_"))
    ]


def job_environment(user: Mapping[str, str], chosen: Iterable[Setting]) -> dict[str, str]:
    """The settings with the user's environment on top: what the user gave is never overwritten."""
    return {**{item.name: item.value for item in chosen if item.overridden_by is None}, **user}


def _without_users_own(user: Mapping[str, str], setting: Setting) -> Setting:
    for name in (setting.name, _OLDER_NAMES.get(setting.name, setting.name)):
        if name in user:
            return replace(setting, overridden_by=name)
    return setting


def _code_setting(source_digest: str) -> Iterator[Setting]:
    yield Setting(
        CODE_DIGEST_VARIABLE,
        source_digest,
        "the boot starts no other code than this: SHA-256 of the archive before it is compressed",
        (_LIFE_OF_A_JOB,),
    )


def _secrets_setting(job: JobSpec) -> Iterator[Setting]:
    if job.secrets:
        yield Setting(
            SECRETS_VARIABLE,
            json.dumps(job.secrets, separators=(",", ":")),
            "what the boot fetches from Secrets Manager before it starts the script: names, no values",
            (sources.JOB_FILE,),
        )


def _budget_setting(budget: CostLimit | None) -> Iterator[Setting]:
    if budget is not None:
        yield Setting(
            BUDGET_VARIABLE,
            budget.to_json(),
            "limits.max_usd, and what a host costs an hour: whoever looks at the job knows what bounds it",
            (_LIFE_OF_A_JOB,),
        )


def _evidence_settings(job: JobSpec, with_boot: bool) -> Iterator[Setting]:
    """What a hang or a crash leaves behind: NCCL's warnings and the flight recorder's dumps."""
    debug = job.profile == "debug"
    yield Setting(
        "NCCL_DEBUG",
        "INFO" if debug else "WARN",
        "shows how NCCL came to its choices, on every rank"
        if debug
        else "its warnings are the first evidence of a network fault; INFO, which the images' own nccl.conf "
        "asks for, buries them",
        (sources.NCCL_ENVIRONMENT,),
    )
    # torch 2.9 renamed two of them and warns of the old names on every rank; older versions know only those.
    renamed = (torch_version(job) or (0, 0)) >= (2, 9)
    yield Setting(
        "TORCH_FR_BUFFER_SIZE" if renamed else "TORCH_NCCL_TRACE_BUFFER_SIZE",
        "2000",
        "keeps the last 2,000 collectives of each rank, PyTorch's default: the only evidence of which rank a "
        "hang waits for, small enough to be written before the watchdog judges (a torch without the recorder "
        "ignores it)",
        (sources.TORCH_FLIGHT_RECORDER,),
    )
    yield Setting(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "1",
        "writes that record when a collective times out",
        (sources.TORCH_FLIGHT_RECORDER,),
    )
    yield Setting(
        "TORCH_FR_DUMP_TEMP_FILE" if renamed else "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        FLIGHT_RECORDER_PATH if with_boot else TOOLKIT_RECORDER_PATH,
        "where it is written: a path that is kept after the job",
        (sources.TORCH_FLIGHT_RECORDER,),
    )


def _thread_settings(facts: InstanceFacts | None, processes_per_host: int) -> Iterator[Setting]:
    if facts is not None:
        yield Setting(
            "OMP_NUM_THREADS",
            str(max(1, facts.vcpus // processes_per_host)),
            f"{facts.vcpus} vCPUs over {_processes_in_words(processes_per_host)}; torchrun would set 1",
            (sources.TORCH_RUN,),
        )


def _compiler_settings(
    job: JobSpec, facts: InstanceFacts | None, processes_per_host: int
) -> Iterator[Setting]:
    if job.distribution.strategy is Strategy.TORCH_XLA:
        yield Setting(
            "GPU_NUM_DEVICES",
            str(facts.accelerators if facts and facts.has_gpus else processes_per_host),
            "the GPUs of one host; without it torch_xla stops with 'Missing XLA configuration'",
            (sources.TRAINING_COMPILER_GUIDE,),
        )


def _debug_settings(facts: InstanceFacts | None, with_boot: bool) -> Iterator[Setting]:
    """`profile: debug` as a whole; slow, so never in a normal run."""
    # DETAIL wraps the process group, which DistributedDataParallel's logger takes for gloo's own where the
    # group is gloo's: a segmentation fault in its constructor (logger.cpp, set_env_variables; torch 2.13).
    by_gloo = facts is not None and not facts.has_gpus
    yield Setting(
        "NCCL_DEBUG_SUBSYS",
        "INIT,NET,ENV",
        "shows how NCCL chose its network and which settings it met",
        (sources.NCCL_ENVIRONMENT,),
    )
    yield Setting(
        "TORCH_DISTRIBUTED_DEBUG",
        "INFO" if by_gloo else "DETAIL",
        "names the parameters that got no gradient (DETAIL would crash DistributedDataParallel over gloo, "
        "which hosts without GPUs use)"
        if by_gloo
        else "checks at every collective that all ranks call the same one, and names those that do not",
        (sources.TORCH_DISTRIBUTED,),
    )
    yield Setting(
        "CUDA_LAUNCH_BLOCKING",
        "1",
        "lets a traceback end at the kernel that failed, not at a later one",
        (sources.TORCH_CUDA_NOTES,),
    )
    # torch has no variable for it: the boot acts on this one, and the toolkit knows nothing of it.
    if with_boot:
        yield Setting(
            "SLIPWAY_DETECT_ANOMALY",
            "1",
            "ends the job at the first NaN in a backward pass, and names the operation of the forward pass",
            (_ANOMALY,),
        )


def _checkpoint_settings(checkpoints: PlannedCheckpoints | None, with_boot: bool) -> Iterator[Setting]:
    """What no configuration file of the container tells: where checkpoints lie, and where they are kept."""
    if checkpoints is None:
        return
    if checkpoints.local_path != DEFAULT_CHECKPOINT_PATH:
        yield Setting(
            CHECKPOINT_DIR_VARIABLE,
            checkpoints.local_path,
            f"{checkpoints.lustre} on the file system, where the job has a directory of its own"
            if checkpoints.lustre
            else "where the script finds and saves checkpoints",
            (sources.JOB_FILE,),
        )
    if checkpoints.s3_uri is not None and not checkpoints.by_service:
        yield Setting(
            CHECKPOINT_URI_VARIABLE,
            checkpoints.s3_uri,
            f"where {'the boot copies' if with_boot else 'the script itself uploads'} checkpoints, "
            "in SageMaker's place",
            (sources.JOB_FILE,),
        )


def _processes_in_words(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


# The network between and within hosts, by instance type and by what the image holds.


PLUGIN_CHOOSES_PROVIDER: Final = Version("1.6")
"""The plugin from which on provider and protocol are its own choice (src/platform-aws.c of v1.6.0)."""

PLUGIN_ASKS_FOR_RDMA: Final = Version("1.7")
"""The plugin from which on libfabric uses the device's RDMA without being told."""

PLUGIN_ABORTS_ON_ERROR: Final = Version("1.13")
"""The plugin from which on OFI_NCCL_ABORT_ON_ERROR is read (include/nccl_ofi_param.h of v1.13.0)."""


_PARAMETERS: Final = Source(
    "aws-ofi-nccl include/nccl_ofi_param.h, v1.9.2 to v1.21.1", date(2026, 11, 22), "2daf7d30"
)


def choose_network_settings(
    job: JobSpec, facts: InstanceFacts | None, software: ImageSoftware | None
) -> Iterator[Setting]:
    """What NCCL and the plugin do not choose well by themselves; `software` is None for an unknown image."""
    if facts is None or not facts.has_gpus:
        return
    yield from _settings_within_host(facts)
    if facts.has_efa and job.resources.instance_count > 1:
        plugin = efa_plugin_version(software)
        if plugin is not None:
            yield from _old_plugin_settings(plugin, facts)
        if plugin is None or plugin >= PLUGIN_ASKS_FOR_RDMA:
            yield _huge_page_settings(plugin)
        yield from _abort_settings(plugin, software)


def _settings_within_host(facts: InstanceFacts) -> Iterator[Setting]:
    if facts.instance_type.split(".")[1] in ("g5", "g6") and facts.accelerators > 1:
        yield Setting(
            "NCCL_SHM_USE_CUDA_MEMCPY",
            "1",
            f"the {facts.accelerators} GPUs have no NVLink: copying through shared memory with the copy "
            "engines about doubles the bandwidth within the host (NCCL 2.13 to 2.30.4 reads it)",
            (sources.EFA_CHEATSHEET, sources.NCCL_PARAMETERS),
        )


def _old_plugin_settings(plugin: Version, facts: InstanceFacts) -> Iterator[Setting]:
    guides = (sources.EFA_CHEATSHEET, sources.EFA_PLUGIN_ENVIRONMENT)
    if plugin < PLUGIN_CHOOSES_PROVIDER:
        yield Setting(
            "FI_PROVIDER",
            "efa",
            f"aws-ofi-nccl {plugin}, which this image has, takes any provider of libfabric unless it is "
            "told; since 1.6 it asks for EFA itself",
            guides,
        )
        yield Setting(
            "NCCL_PROTO",
            "simple",
            "NCCL's LL and LL128 rely on stores that arrive in order, which EFA may not keep; aws-ofi-nccl "
            f"{plugin}, which this image has, does not see to it (since 1.6 it does)",
            guides,
        )
    if plugin < PLUGIN_ASKS_FOR_RDMA and facts.gpudirect_rdma and facts.efa_rdma_read:
        yield Setting(
            "FI_EFA_USE_DEVICE_RDMA",
            "1",
            f"aws-ofi-nccl {plugin}, which this image has, leaves libfabric's RDMA off unless it is told: "
            "every message would be copied through host memory; since 1.7 it is on",
            guides,
        )


def _huge_page_settings(plugin: Version | None) -> Setting:
    return Setting(
        "FI_EFA_USE_HUGE_PAGE",
        "0",
        "DataLoader workers that fork can use up the huge pages in which libfabric keeps its buffers, and "
        "fail with 'Cannot allocate memory'; without them messages are a little slower"
        + ("" if plugin else "; libfabric before 1.19 ignores it, and what this image holds is not known"),
        (sources.EFA_CHEATSHEET, sources.EFA_PLUGIN_ENVIRONMENT, sources.LIBFABRIC_EFA),
    )


def _abort_settings(plugin: Version | None, software: ImageSoftware | None) -> Iterator[Setting]:
    nccl = Version(software.nccl) if software and software.nccl else None
    if nccl is None or (plugin is not None and plugin < PLUGIN_ABORTS_ON_ERROR):
        return
    if Version("2.21") <= nccl < Version("2.24"):
        yield Setting(
            "OFI_NCCL_ABORT_ON_ERROR",
            "1",
            f"NCCL {nccl}, which this image has, ignores errors of the EFA plugin, as 2.21 to 2.23 do: the "
            "job would hang instead of ending",
            (_PARAMETERS,),
        )
