"""Variables that turn EFA off, hide or fight its plugin, are obsolete, or for debugging.

NCCL001, EFA005 and EFA007; NCCL002; NCCL003.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from launcher.rules.shared_facts import UNREAD_VARIABLES

P4D, P5, G5, G5_SMALL, G7 = (
    "ml.p4d.24xlarge",
    "ml.p5.48xlarge",
    "ml.g5.12xlarge",
    "ml.g5.2xlarge",
    "ml.g7.12xlarge",
)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("name", "value", "instance_type", "found"),
    [
        pytest.param("FI_PROVIDER", "tcp", P4D, "error", id="tcp turns EFA off"),
        pytest.param("FI_PROVIDER", "sockets", P5, "error", id="sockets turn EFA off"),
        pytest.param("FI_PROVIDER", "tcp;ofi_rxm", P4D, "error", id="a layered provider without efa"),
        pytest.param("FI_PROVIDER", "^efa", P4D, "error", id="efa excluded"),
        pytest.param("FI_PROVIDER", "^tcp", P4D, None, id="another one excluded"),
        pytest.param("FI_PROVIDER", "tcp,efa", P4D, None, id="efa among others"),
        pytest.param("FI_PROVIDER", "EFA", P4D, None, id="efa on EFA is harmless"),
        pytest.param("FI_PROVIDER", "", P4D, None, id="empty"),
        pytest.param("FI_PROVIDER", "efa", G5_SMALL, "warning", id="efa without EFA ends at TCP"),
        pytest.param("FI_PROVIDER", "efa", "ml.p9.48xlarge", None, id="efa on an unknown type"),
        pytest.param("FI_PROVIDER", "tcp", G5_SMALL, None, id="tcp where there is nothing else"),
        pytest.param("FI_PROVIDER", "tcp", "ml.p9.48xlarge", None, id="unknown type"),
        pytest.param("NCCL_NET", "Socket", P5, "error", id="sockets by name"),
        pytest.param("NCCL_NET", "socket", P5, "error", id="NCCL compares without case"),
        pytest.param("NCCL_NET", "Socket", G5_SMALL, None, id="sockets where there is nothing else"),
        pytest.param("NCCL_NET", "IB", P5, "error", id="InfiniBand is nowhere"),
        pytest.param("NCCL_NET", "AWS Libfabric", P5, None, id="the plugin by name"),
        pytest.param("NCCL_NET", "AWS Libfabric", G5_SMALL, "error", id="the plugin without EFA"),
        pytest.param("NCCL_NET", "libfabric", G5_SMALL, "error", id="the plugin's new name without EFA"),
        pytest.param("NCCL_NET", "", P5, None, id="no name"),
        pytest.param("NCCL_IB_TIMEOUT", "22", P5, "warning", id="InfiniBand's time-out"),
        pytest.param("NCCL_IBEXT_DISABLE", "1", P5, "warning", id="InfiniBand's other plugin"),
        pytest.param("NCCL_NSOCKS_PERTHREAD", "8", P5, "warning", id="sockets on EFA"),
        pytest.param("NCCL_SOCKET_NTHREADS", "4", G5_SMALL, None, id="sockets where there is nothing else"),
        pytest.param("FI_EFA_USE_HUGE_PAGE", "1", P5, "warning", id="huge pages against fork safety"),
        pytest.param("FI_EFA_USE_HUGE_PAGE", "0", P5, None, id="no huge pages"),
        pytest.param("FI_EFA_FORK_SAFE", "0", P5, "warning", id="fork safety taken back"),
        pytest.param("FI_EFA_FORK_SAFE", "1", G5_SMALL, None, id="fork safety without EFA"),
        pytest.param("NCCL_IB_DISABLE", "1", P5, "warning", id="InfiniBand disabled"),
        pytest.param("NCCL_IB_DISABLE", "0", P5, None, id="InfiniBand left on"),
        pytest.param("NCCL_PROTO", "simple", P4D, "warning", id="protocol"),
        pytest.param("NCCL_ALGO", "Ring", P4D, "warning", id="algorithm"),
        pytest.param("NCCL_P2P_DISABLE", "1", P4D, "warning", id="no NVLink"),
        pytest.param("NCCL_P2P_DISABLE", "0", P4D, None, id="NVLink left on"),
        pytest.param("RDMAV_FORK_SAFE", "1", P4D, "warning", id="fork safety of older guides"),
        pytest.param("FI_EFA_FORK_SAFE", "1", P4D, "warning", id="what the plugin sets itself"),
        pytest.param("NCCL_BUFFSIZE", "4194304", P4D, "warning", id="buffer size"),
        pytest.param("NCCL_BUFFSIZE", "8388608", P4D, None, id="the plugin's own buffer size"),
        pytest.param("NCCL_BUFFSIZE", "8388608", G5, "warning", id="a buffer size of other types"),
        pytest.param("NCCL_P2P_NET_CHUNKSIZE", "524288", P5, None, id="the plugin's own chunk size"),
        pytest.param("NCCL_BUFFSIZE", "4194304", G5_SMALL, None, id="buffer size without the plugin"),
        pytest.param("NCCL_TUNER_PLUGIN", "none", P5, "warning", id="tuner"),
        pytest.param("NCCL_NVLS_ENABLE", "0", P5, "warning", id="NVLS"),
        pytest.param("NCCL_MIN_NCHANNELS", "16", P4D, "warning", id="more channels"),
        pytest.param("FI_EFA_USE_DEVICE_RDMA", "0", P4D, "warning", id="RDMA given up"),
        pytest.param("FI_EFA_USE_DEVICE_RDMA", "1", P4D, None, id="RDMA where it is"),
        pytest.param("FI_EFA_USE_DEVICE_RDMA", "0", "ml.g6.12xlarge", None, id="RDMA of host memory alone"),
        pytest.param("FI_EFA_USE_DEVICE_RDMA", "1", G5_SMALL, "warning", id="RDMA without EFA"),
        pytest.param("FI_EFA_USE_DEVICE_RDMA", "1", "ml.p9.48xlarge", None, id="RDMA of an unknown type"),
        pytest.param("NCCL_SOCKET_IFNAME", "eth0", P4D, "warning", id="fixed interface"),
        pytest.param("NCCL_SOCKET_IFNAME", "=ens5", P4D, "warning", id="fixed interface, exactly"),
        pytest.param("NCCL_SOCKET_IFNAME", "^docker0,lo,eth", P4D, "warning", id="SageMaker's excluded"),
        pytest.param("NCCL_SOCKET_IFNAME", "^docker0,lo,veth", P4D, None, id="only others excluded"),
        pytest.param("NCCL_DEBUG", "WARN", P4D, None, id="no setting of the network"),
    ],
)
def test_environment_against_efa(
    severity_of, name: str, value: str, instance_type: str, found: str | None
) -> None:
    job = {"environment": {name: value}, "resources": {"instance_type": instance_type}}
    assert severity_of("NCCL001", **job) == found


@pytest.mark.parametrize(
    ("name", "value", "version", "found"),
    [
        pytest.param("NCCL_PROTO", "simple", "2.0.1", None, id="what plugin 1.5 needs"),
        pytest.param("NCCL_PROTO", "LL128", "2.0.1", "warning", id="another protocol"),
        pytest.param("NCCL_PROTO", "simple", "2.1.0", "warning", id="nobody knows the plugin"),
        pytest.param("NCCL_PROTO", "simple", "2.13.0", "warning", id="plugin 1.20"),
        pytest.param("NCCL_NET", "ofi", "2.5.1", "error", id="a name that plugin 1.12 does not have"),
        pytest.param("NCCL_NET", "Libfabric", "2.5.1", "error", id="nor this one"),
        pytest.param("NCCL_NET", "AWS Libfabric", "2.5.1", None, id="its name"),
        pytest.param("NCCL_NET", "ofi", "2.7.1", None, id="plugin 1.14 answers to it"),
        pytest.param("NCCL_NET", "ofi", "2.6.0", None, id="nobody knows"),
    ],
)
def test_the_plugin_in_the_image_decides(
    severity_of, name: str, value: str, version: str, found: str | None
) -> None:
    assert severity_of("NCCL001", environment={name: value}, framework={"version": version}) == found


def test_a_libfabric_from_before_it_aborted_is_no_reason_to_refuse(severity_of) -> None:
    forced = {"environment": {"FI_EFA_USE_DEVICE_RDMA": "1"}, "resources": {"instance_type": G5}}
    assert severity_of("EFA007", framework={"version": "2.0.1"}, **forced) is None
    assert severity_of("EFA007", framework={"version": "2.1.0"}, **forced) == "error"


def test_the_value_and_the_line_are_told(judge) -> None:
    (finding,) = judge("NCCL001", environment={"A": "b", "FI_PROVIDER": "tcp"})
    assert finding.message.startswith("FI_PROVIDER=tcp turns EFA off on ml.p4d.24xlarge")
    assert finding.subject == "environment.FI_PROVIDER"
    assert finding.location.line > 1


@pytest.mark.parametrize(
    ("options", "found"),
    [
        pytest.param("-x FI_PROVIDER=tcp -x OTHER=1", "error", id="exported with a value"),
        pytest.param("--verbose -x FI_PROVIDER", None, id="exported as it is"),
        pytest.param("-x 'FI_PROVIDER=efa", None, id="an open quote is no crash"),
    ],
)
def test_mpi_options_are_environment_too(severity_of, options: str, found: str | None) -> None:
    distribution = {"strategy": "mpi", "options": {"mpi_options": options}}
    assert severity_of("NCCL001", distribution=distribution) == found


@pytest.mark.parametrize(
    ("name", "value", "instance_type", "found"),
    [
        pytest.param("NCCL_NET_PLUGIN", "none", P4D, "error", id="no plugin at all"),
        pytest.param("NCCL_NET_PLUGIN", "sharp", P4D, "warning", id="another plugin"),
        pytest.param("NCCL_NET_PLUGIN", "aws-ofi", P4D, None, id="the plugin"),
        pytest.param("NCCL_NET_PLUGIN", "/opt/lib/libnccl-net.so", P4D, None, id="the plugin by path"),
        pytest.param("NCCL_NET_PLUGIN", "none", G5_SMALL, None, id="no plugin without EFA"),
        pytest.param("LD_LIBRARY_PATH", "/opt/mine/lib", P4D, "warning", id="the image's path replaced"),
        pytest.param("LD_LIBRARY_PATH", "/opt/amazon/ofi-nccl/lib:/x", P4D, None, id="the plugin is in it"),
        pytest.param("LD_PRELOAD", "libtcmalloc.so", P4D, "warning", id="the image's preload replaced"),
        pytest.param("PATH", "/opt/mine/bin", P4D, None, id="another variable"),
    ],
)
def test_environment_that_hides_the_plugin(
    severity_of, name: str, value: str, instance_type: str, found: str | None
) -> None:
    job = {"environment": {name: value}, "resources": {"instance_type": instance_type}}
    assert severity_of("EFA005", **job) == found


@pytest.mark.parametrize(
    ("value", "instance_type", "found"),
    [
        pytest.param("1", G5, "error", id="EFA without RDMA read"),
        pytest.param("true", G5, "error", id="as libfabric reads a truth value"),
        pytest.param("1", "ml.p3dn.24xlarge", "error", id="the older EFA device of p3dn"),
        pytest.param("1", "ml.c5n.18xlarge", "error", id="a host without GPUs"),
        pytest.param("1", G5_SMALL, None, id="no EFA at all: libfabric has no device to abort over"),
        pytest.param("1", P4D, None, id="RDMA read"),
        pytest.param("1", G7, None, id="nobody knows of its GPUs, but the device reads"),
        pytest.param("1", "ml.p5.4xlarge", None, id="the device reads, if not the GPUs' memory: p5.4xlarge"),
        pytest.param("1", "ml.g7e.8xlarge", None, id="g7e.8xlarge as well"),
        pytest.param("1", "ml.g6e.12xlarge", None, id="g6e as well, as AWS's own example sets it"),
        pytest.param("1", "ml.m8i.96xlarge", None, id="and hosts without GPUs on the newest EFA"),
        pytest.param("0", G5, None, id="switched off"),
        pytest.param("1", "ml.p9.48xlarge", None, id="unknown type"),
    ],
)
def test_device_rdma_is_forced_only_where_it_is(
    severity_of, value: str, instance_type: str, found: str | None
) -> None:
    job = {"environment": {"FI_EFA_USE_DEVICE_RDMA": value}, "resources": {"instance_type": instance_type}}
    assert severity_of("EFA007", **job) == found


DLC = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:{}-gpu-py312"


@pytest.mark.parametrize(
    ("name", "value", "job", "found"),
    [
        pytest.param("NCCL_TREE_THRESHOLD", "0", {}, "warning", id="gone"),
        pytest.param("NCCL_IB_GDR_LEVEL", "1", {}, "warning", id="gone before it"),
        pytest.param("NCCL_TIMEOUT", "1800", {}, "warning", id="never read"),
        pytest.param("NCCL_SOCKET_TIMEOUT", "300", {}, "warning", id="nor this"),
        pytest.param("TORCH_DISTRIBUTED_TIMEOUT", "3600", {}, "warning", id="nor by torch"),
        pytest.param("NSOCKS", "8", {}, "warning", id="the end of a name"),
        pytest.param("NCCL_MIN_CHANNELS", "8", {}, "warning", id="a letter too few"),
        pytest.param("NCCL_NSOCKS_PERTHREAD", "8", {}, None, id="read, for what it is worth"),
        pytest.param("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "600", {}, None, id="a time-out that torch reads"),
        pytest.param("NCCL_IB_TIMEOUT", "22", {}, None, id="one that NCCL reads"),
        pytest.param("NCCL_AVOID_RECORD_STREAMS", "1", {}, "warning", id="renamed, and not read any more"),
        pytest.param("NCCL_MIN_NRINGS", "4", {}, "warning", id="an old alias"),
        pytest.param("NCCL_MAX_NRINGS", "16", {}, "warning", id="the other alias"),
        pytest.param("NCCL_MAX_NCHANNELS", "16", {}, None, id="the new name"),
        pytest.param("NCCL_ASYNC_ERROR_HANDLING", "1", {}, "warning", id="renamed"),
        pytest.param(
            "NCCL_ASYNC_ERROR_HANDLING",
            "1",
            {"framework": {"version": "2.2.0"}},
            "warning",
            id="since torch 2.2",
        ),
        pytest.param(
            "NCCL_ASYNC_ERROR_HANDLING", "1", {"framework": {"version": "2.1.0"}}, None, id="not before"
        ),
        pytest.param(
            "NCCL_BLOCKING_WAIT",
            "1",
            {"framework": None, "image": DLC.format("2.8.0")},
            "warning",
            id="AWS image",
        ),
        pytest.param(
            "NCCL_BLOCKING_WAIT", "1", {"framework": None, "image": "me/torch:3"}, None, id="own image"
        ),
        pytest.param("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", {}, None, id="the default"),
        pytest.param("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", {}, "warning", id="no record of a hang"),
    ],
)
def test_obsolete_environment(severity_of, name: str, value: str, job: dict, found: str | None) -> None:
    assert severity_of("NCCL002", environment={name: value}, **job) == found


def test_the_message_says_what_is_read_instead(judge) -> None:
    (finding,) = judge("NCCL002", environment={"NCCL_TIMEOUT": "1800"})
    assert "nothing reads it" in finding.message
    assert "init_process_group" in finding.message


def test_torch_reads_none_of_what_is_said_to_be_unread() -> None:
    """What the distributed part of the installed torch names, and the header of its NCCL backend."""
    torch = Path(find_spec("torch").submodule_search_locations[0])
    header = torch / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
    named = set(re.findall(r"\b[A-Z][A-Z0-9_]{5,}\b", header.read_text("utf-8")))
    for path in (torch / "distributed").rglob("*.py"):
        named |= set(re.findall(r"\b[A-Z][A-Z0-9_]{5,}\b", path.read_text("utf-8")))
    assert {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "TORCH_DIST_INIT_BARRIER"} <= named
    assert not named & set(UNREAD_VARIABLES)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", "warning"),
        ("CUDA_LAUNCH_BLOCKING", "0", None),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "warning"),
        ("TORCH_DISTRIBUTED_DEBUG", "INFO", None),
        ("TORCH_NCCL_BLOCKING_WAIT", "1", "warning"),
        ("NCCL_DEBUG", "TRACE", "warning"),
        ("NCCL_DEBUG", "INFO", "info"),
        ("NCCL_DEBUG", "WARN", None),
        ("NCCL_CHECK_POINTERS", "1", "warning"),
        ("NCCL_CHECK_POINTERS", "0", None),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "warning"),
        ("PYTHONDEVMODE", "", None),
        ("FI_LOG_LEVEL", "debug", "warning"),
        ("FI_LOG_LEVEL", "warn", None),
        ("TORCH_CPP_LOG_LEVEL", "INFO", "info"),
        ("TORCH_CPP_LOG_LEVEL", "error", None),
    ],
)
def test_debugging_environment(severity_of, name: str, value: str, found: str | None) -> None:
    assert severity_of("NCCL003", environment={name: value}) == found
    assert severity_of("NCCL003", environment={name: value}, profile="debug") is None


def test_settings_copied_from_an_infiniband_guide_are_all_warned_of(judge) -> None:
    """The best-practice and optimisation lists of the DDP guide, on EFA hosts."""
    copied = {
        "NCCL_DEBUG": "INFO",
        "CUDA_LAUNCH_BLOCKING": "1",
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_TREE_THRESHOLD": "0",
        "NCCL_MIN_NRINGS": "4",
        "NCCL_MAX_NRINGS": "16",
    }
    assert {finding.subject for finding in judge(environment=copied)} == {
        f"environment.{name}" for name in copied
    }
