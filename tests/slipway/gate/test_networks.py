"""Which network NCCL took, by lines that the named versions printed, or as their sources have them."""

from __future__ import annotations

import pytest

from slipway.gate.networks import judge_network

EFA = ("rdmap0s6", "rdmap0s7", "rdmap0s8", "rdmap0s9")
# RankTail by NCCL 2.28.9 (torch 2.11) on an H100 without EFA, 2026-11-22.
NCCL_2_28 = """\
vm:467:467 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
vm:467:467 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
vm:467:467 [0] NCCL INFO NET/IB : No device found.
vm:467:467 [0] NCCL INFO Failed to initialize NET plugin IB
vm:467:467 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>
vm:467:467 [0] NCCL INFO Assigned NET plugin Socket to comm
vm:467:467 [0] NCCL INFO Using network Socket
"""
P = "algo-1:81:81 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (NCCL_2_28, "NET/Plugin: Could not find: libnccl-net.so"),
        # src/net.cc of NCCL 2.7.8, 2.18.5, 2.20.5, 2.21.5 and 2.23.4, each with the line of src/init.cc.
        (
            f"{P}NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
            f"{P}Using network Socket\n",
            "NET/Plugin : No plugin found (libnccl-net.so)",
        ),
        (
            f"{P}NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open shared "
            f"object file: No such file or directory\n{P}Using network Socket\n",
            "libfabric.so.1: cannot open shared object file",
        ),
        (
            f"{P}NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or "
            f"directory No plugin found (libnccl-net.so), using internal implementation\n"
            f"{P}Using network Socket\n",
            "dlerror=libnccl-net.so",
        ),
        (f"{P}NET/Plugin: No plugin found (libnccl-net.so)\n{P}Using network Socket\n", "No plugin found"),
        (
            f"{P}NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
            f"{P}Using network Socket\n",
            "Could not find",
        ),
        # aws-ofi-nccl 1.16 and 1.9: src/nccl_ofi_net.cpp, src/nccl_ofi_net.c.
        (f"{P}NET/OFI No eligible providers were found\n{P}Using network Socket\n", "No eligible providers"),
        (
            f"{P}NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)\n{P}Using network AWS Libfabric\n",
            "tcp",
        ),
        (f"{P}NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)\n", "provider tcp"),
    ],
)
def test_sockets_on_a_host_with_efa_are_named_with_why_the_plugin_is_not_used(log: str, why: str) -> None:
    (finding,) = judge_network("algo-1", log, EFA, 2).findings
    assert (finding.code, finding.host, finding.ends) == ("EFA005", "algo-1", True)
    assert why in finding.text
    assert "4 EFA devices" in finding.text


@pytest.mark.parametrize(
    "log",
    [
        f"{P}NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n{P}Using network Libfabric\n",
        f"{P}NET/OFI Selected Provider is efa (found 4 nics)\n{P}Using network AWS Libfabric\n",
    ],
)
def test_efa_in_use_gives_no_finding(log: str) -> None:
    report = judge_network("algo-1", log, EFA, 2)
    assert not report.findings
    assert not report.unknown


def test_sockets_are_right_without_efa_and_for_a_host_alone() -> None:
    assert not judge_network("algo-1", NCCL_2_28, (), 2).findings
    assert not judge_network("algo-1", NCCL_2_28, EFA, 1).findings


def test_a_log_without_a_word_about_the_network_is_said_not_to_say() -> None:
    assert judge_network("algo-1", "", EFA, 2).unknown == (
        "which network NCCL takes on algo-1 (its log does not say)",
    )


@pytest.mark.parametrize(
    "line",
    [
        # libfabric, efa_rdm_util.c; aws-ofi-nccl 1.1 to 1.16, nccl_ofi_sendrecv; from 1.9 on, nccl_ofi_rdma.
        "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability",
        "algo-1:9:9 [4] NCCL WARN NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: "
        "Invalid argument",
        "algo-1:9:9 [0] NCCL WARN NET/OFI Could not register memory on data rail 0 with flag 4",
    ],
)
def test_memory_that_efa_cannot_register_is_named_in_the_plugins_words(line: str) -> None:
    (finding,) = judge_network("algo-1", f"{P}NCCL version 2.21.5\n{line}\n", EFA, 2).findings
    assert finding.code == "EFA007"
    assert line[-30:] in finding.text
