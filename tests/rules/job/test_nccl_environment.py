"""Obsolete (NCCL002) and debugging (NCCL003) variables."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from launcher.rules.variables import UNREAD

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
    assert not named & set(UNREAD)


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
