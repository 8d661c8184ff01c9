"""The settings of the network: by the instance type, and by the plugin that the image holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import instance_facts
from launcher.jobs.load import load_job
from launcher.planning.network_settings import network_settings
from launcher.planning.setting import Setting
from launcher.planning.software_of_job import software_of

P4D, P5, G5 = "ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.g5.12xlarge"
OLD = {"FI_PROVIDER", "NCCL_PROTO", "FI_EFA_USE_DEVICE_RDMA"}
Chosen = Callable[..., dict[str, Setting]]


@pytest.fixture
def chosen_on(write_job: Callable[..., Path]) -> Chosen:
    """The settings of the network for a PyTorch version, an instance type and a number of hosts."""

    def chosen(version: str | None, instance_type: str, hosts: int = 2, **fields: Any) -> dict[str, Setting]:
        loaded = load_job(
            write_job(
                framework=version and {"version": version},
                resources={"instance_type": instance_type, "instance_count": hosts},
                **fields,
            )
        )
        assert loaded.spec is not None, loaded.findings
        facts = instance_facts(instance_type)
        found = list(network_settings(loaded.spec, facts, software_of(loaded.spec, facts)))
        assert len({setting.name for setting in found}) == len(found)
        return {setting.name: setting for setting in found}

    return chosen


@pytest.mark.parametrize(
    ("version", "instance_type", "set_for_it"),
    [
        pytest.param("1.13.1", P4D, OLD, id="plugin 1.4 where GPUs and device read by RDMA"),
        pytest.param("2.0.1", "ml.p4de.24xlarge", OLD, id="plugin 1.5"),
        pytest.param("2.0.1", G5, OLD - {"FI_EFA_USE_DEVICE_RDMA"}, id="a device without RDMA read"),
        pytest.param("2.0.1", "ml.g6e.12xlarge", OLD - {"FI_EFA_USE_DEVICE_RDMA"}, id="no GPUDirect RDMA"),
        pytest.param("2.0.1", "ml.g5.2xlarge", set(), id="no EFA"),
        pytest.param("2.0.0", P4D, set(), id="a plugin whose version nobody knows"),
        pytest.param("2.1.0", P4D, set(), id="another"),
        pytest.param("2.5.1", P4D, set(), id="plugin 1.12"),
        pytest.param("2.13.0", P5, set(), id="plugin 1.20"),
    ],
)
def test_an_old_plugin_is_told_what_newer_ones_do_by_themselves(
    chosen_on: Chosen, version: str, instance_type: str, set_for_it: set[str]
) -> None:
    chosen = chosen_on(version, instance_type)
    assert OLD & set(chosen) == set_for_it
    assert {chosen[name].value for name in set_for_it} <= {"efa", "simple", "1"}
    assert all("1.4.0" in chosen[name].reason or "1.5.0" in chosen[name].reason for name in set_for_it)


@pytest.mark.parametrize(
    ("version", "instance_type", "hosts", "found"),
    [
        pytest.param("2.8.0", P5, 2, True, id="several hosts with EFA"),
        pytest.param("2.8.0", "ml.g5.8xlarge", 2, True, id="one EFA interface"),
        pytest.param("2.1.0", P4D, 2, True, id="unknown plugin"),
        pytest.param("2.0.1", P4D, 2, False, id="a libfabric that does not read it"),
        pytest.param("2.8.0", P5, 1, False, id="one host has no network"),
        pytest.param("2.8.0", "ml.g5.2xlarge", 2, False, id="no EFA"),
        pytest.param("2.8.0", "ml.c5n.18xlarge", 2, False, id="no GPUs"),
    ],
)
def test_forking_workers_do_not_meet_huge_pages(
    chosen_on: Chosen, version: str, instance_type: str, hosts: int, found: bool
) -> None:
    chosen = chosen_on(version, instance_type, hosts)
    assert ("FI_EFA_USE_HUGE_PAGE" in chosen) is found
    assert not found or chosen["FI_EFA_USE_HUGE_PAGE"].value == "0"


def test_the_reason_says_where_the_plugin_is_not_known(chosen_on: Chosen) -> None:
    known, unknown = chosen_on("2.8.0", P5), chosen_on("2.1.0", P5)
    assert "unknown" not in known["FI_EFA_USE_HUGE_PAGE"].reason
    assert "is not known" in unknown["FI_EFA_USE_HUGE_PAGE"].reason


@pytest.mark.parametrize(
    ("instance_type", "found"),
    [
        ("ml.g5.12xlarge", True),
        ("ml.g5.48xlarge", True),
        ("ml.g6.24xlarge", True),
        ("ml.g5.16xlarge", False),
        ("ml.g6e.12xlarge", False),
        (P4D, False),
    ],
)
def test_shared_memory_copies_by_engine_where_several_gpus_have_no_nvlink(
    chosen_on: Chosen, instance_type: str, found: bool
) -> None:
    chosen = chosen_on("2.8.0", instance_type, 1)
    assert ("NCCL_SHM_USE_CUDA_MEMCPY" in chosen) is found
    assert not found or chosen["NCCL_SHM_USE_CUDA_MEMCPY"].value == "1"


@pytest.mark.parametrize(
    ("version", "instance_type", "hosts", "strategy", "found"),
    [
        pytest.param("2.6.0", P5, 2, "torchrun", True, id="NCCL 2.23 and an unknown plugin"),
        pytest.param("2.4.0", P5, 2, "torchrun", True, id="NCCL 2.22 and plugin 1.15"),
        pytest.param("2.3.0", P5, 2, "torchrun", True, id="NCCL 2.21"),
        pytest.param("2.5.1", P5, 2, "torchrun", False, id="plugin 1.12 does not read it"),
        pytest.param("2.1.0", P5, 2, "torchrun", False, id="NCCL 2.18"),
        pytest.param("2.11.0", P5, 2, "torchrun", False, id="NCCL 2.28"),
        pytest.param("2.7.1", P5, 2, "torchrun", False, id="an unknown NCCL"),
        pytest.param("2.6.0", P5, 1, "torchrun", False, id="one host has no network"),
        pytest.param("2.6.0", "ml.g5.2xlarge", 2, "torchrun", False, id="no EFA"),
        pytest.param("2.6.0", "ml.g5.8xlarge", 2, "torchrun", True, id="one EFA interface"),
        pytest.param("2.4.1", P5, 2, "smp", False, id="an image with an NCCL of its own"),
    ],
)
def test_errors_of_the_plugin_end_the_job_where_nccl_ignores_them(
    chosen_on: Chosen, version: str, instance_type: str, hosts: int, strategy: str, found: bool
) -> None:
    chosen = chosen_on(version, instance_type, hosts, distribution={"strategy": strategy})
    assert ("OFI_NCCL_ABORT_ON_ERROR" in chosen) is found


def test_nothing_is_known_of_an_own_image(chosen_on: Chosen) -> None:
    image = "1.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.0.1-gpu-py310"
    assert set(chosen_on(None, P5, image=image)) == {"FI_EFA_USE_HUGE_PAGE"}


def test_an_unknown_type_and_one_without_gpus_get_nothing(chosen_on: Chosen) -> None:
    assert chosen_on("2.8.0", "ml.p9.48xlarge") == {}
    assert chosen_on("2.8.0", "ml.m5.xlarge") == {}
