"""Obsolete (NCCL002) and debugging (NCCL003) variables."""

from __future__ import annotations

import pytest

DLC = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:{}-gpu-py312"


@pytest.mark.parametrize(
    ("name", "value", "job", "found"),
    [
        pytest.param("NCCL_TREE_THRESHOLD", "0", {}, "warning", id="gone"),
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
