"""The settings of the network between and within hosts, by instance type and by what the image holds.

Since version 1.6 the aws-ofi-nccl plugin chooses provider and protocol by itself, and since 1.7 libfabric's
RDMA as well, so these are set for the older ones alone, in the images of PyTorch 2.0 and before. Where the
plugin's version is not known, nothing of it is assumed. Left to plugin and NCCL on purpose: algorithm,
tuner, buffer and chunk sizes, FI_EFA_FORK_SAFE and NCCL_SOCKET_IFNAME (only the container knows its
interface). FI_EFA_SET_CUDA_SYNC_MEMOPS is set nowhere: it is for EFA installers before 1.29.1 with NCCL 2.19
or later, and no image of AWS holds both (tags of aws/deep-learning-containers for PyTorch 1.13 to 2.4: the
last older installer is 1.27.0 with NCCL 2.18.5, the next 1.30.0 with 2.19.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from packaging.version import Version

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import sources
from launcher.failure_modes.model import Source
from launcher.jobs.specification import JobSpec
from launcher.planning.image_software import ImageSoftware
from launcher.planning.setting import Setting
from launcher.planning.software_of_job import plugin_of

CHOOSES_BY_ITSELF: Final = Version("1.6")
"""The plugin from which on provider and protocol are its own choice (src/platform-aws.c of v1.6.0)."""

ASKS_FOR_RDMA: Final = Version("1.7")
"""The plugin from which on libfabric uses the device's RDMA without being told."""

ABORTS_ON_ERROR: Final = Version("1.13")
"""The plugin from which on OFI_NCCL_ABORT_ON_ERROR is read (include/nccl_ofi_param.h of v1.13.0)."""


_PARAMETERS: Final = Source(
    "aws-ofi-nccl include/nccl_ofi_param.h, v1.9.2 to v1.21.1", date(2026, 11, 22), "2daf7d30"
)


def network_settings(
    job: JobSpec, facts: InstanceFacts | None, software: ImageSoftware | None
) -> Iterator[Setting]:
    """What NCCL and the plugin do not choose well by themselves; `software` is None for an unknown image."""
    if facts is None or not facts.has_gpus:
        return
    yield from _within_a_host(facts)
    if facts.has_efa and job.resources.instance_count > 1:
        plugin = plugin_of(software)
        if plugin is not None:
            yield from _for_an_old_plugin(plugin, facts)
        if plugin is None or plugin >= ASKS_FOR_RDMA:
            yield _without_huge_pages(plugin)
        yield from _errors_that_end_the_job(plugin, software)


def _within_a_host(facts: InstanceFacts) -> Iterator[Setting]:
    if facts.instance_type.split(".")[1] in ("g5", "g6") and facts.accelerators > 1:
        yield Setting(
            "NCCL_SHM_USE_CUDA_MEMCPY",
            "1",
            f"the {facts.accelerators} GPUs have no NVLink: copying through shared memory with the copy "
            "engines about doubles the bandwidth within the host (NCCL 2.13 to 2.30.4 reads it)",
            (sources.EFA_CHEATSHEET, sources.NCCL_PARAMETERS),
        )


def _for_an_old_plugin(plugin: Version, facts: InstanceFacts) -> Iterator[Setting]:
    guides = (sources.EFA_CHEATSHEET, sources.EFA_PLUGIN_ENVIRONMENT)
    if plugin < CHOOSES_BY_ITSELF:
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
    if plugin < ASKS_FOR_RDMA and facts.gpudirect_rdma and facts.efa_rdma_read:
        yield Setting(
            "FI_EFA_USE_DEVICE_RDMA",
            "1",
            f"aws-ofi-nccl {plugin}, which this image has, leaves libfabric's RDMA off unless it is told: "
            "every message would be copied through host memory; since 1.7 it is on",
            guides,
        )


def _without_huge_pages(plugin: Version | None) -> Setting:
    return Setting(
        "FI_EFA_USE_HUGE_PAGE",
        "0",
        "DataLoader workers that fork can use up the huge pages in which libfabric keeps its buffers, and "
        "fail with 'Cannot allocate memory'; without them messages are a little slower"
        + ("" if plugin else "; libfabric before 1.19 ignores it, and what this image holds is not known"),
        (sources.EFA_CHEATSHEET, sources.EFA_PLUGIN_ENVIRONMENT, sources.LIBFABRIC_EFA),
    )


def _errors_that_end_the_job(plugin: Version | None, software: ImageSoftware | None) -> Iterator[Setting]:
    nccl = Version(software.nccl) if software and software.nccl else None
    if nccl is None or (plugin is not None and plugin < ABORTS_ON_ERROR):
        return
    if Version("2.21") <= nccl < Version("2.24"):
        yield Setting(
            "OFI_NCCL_ABORT_ON_ERROR",
            "1",
            f"NCCL {nccl}, which this image has, ignores errors of the EFA plugin, as 2.21 to 2.23 do: the "
            "job would hang instead of ending",
            (_PARAMETERS,),
        )
