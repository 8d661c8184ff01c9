"""Training Compiler: XLA001, XLA007 to XLA009."""

from __future__ import annotations

import pytest

P3 = "ml.p3.16xlarge"


@pytest.mark.parametrize(
    ("value", "strategy", "instance_type", "found"),
    [
        pytest.param("8", "torch_xla", P3, None, id="the GPUs of the host"),
        pytest.param("4", "torch_xla", P3, "error", id="fewer"),
        pytest.param("9", "torch_xla", P3, "error", id="more"),
        pytest.param("all", "torch_xla", P3, "error", id="no number"),
        pytest.param("4", "torchrun", P3, None, id="without the compiler nobody reads it"),
        pytest.param("4", "torch_xla", "ml.p9.48xlarge", None, id="unknown type"),
        pytest.param(None, "torch_xla", P3, None, id="the plan sets it"),
    ],
)
def test_gpu_num_devices(
    severity_of, value: str | None, strategy: str, instance_type: str, found: str | None
) -> None:
    environment = {} if value is None else {"GPU_NUM_DEVICES": value}
    job = {"distribution": {"strategy": strategy}, "resources": {"instance_type": instance_type}}
    assert severity_of("XLA001", environment=environment, **job) == found


@pytest.mark.parametrize("code", ["XLA007", "XLA008", "XLA009"])
def test_what_the_compiler_changes_is_an_information(severity_of, code: str) -> None:
    compiled = {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": P3}}
    assert severity_of(code, **compiled) == "info"
    assert severity_of(code) is None


def test_the_batch_to_be_tuned_again_is_named(judge) -> None:
    compiled = {"distribution": {"strategy": "torch_xla"}, "resources": {"instance_type": P3}}
    (finding,) = judge("XLA008", data={"batch_size": 24}, **compiled)
    assert "24" in finding.message
