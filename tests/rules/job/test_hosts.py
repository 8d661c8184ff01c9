"""What connects several hosts: EFA006."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("instance_type", "hosts", "found"),
    [
        pytest.param("ml.g5.2xlarge", 2, "has no EFA", id="no EFA"),
        pytest.param("ml.g5.2xlarge", 1, None, id="no EFA, and no need of it"),
        pytest.param("ml.g5.12xlarge", 2, "no GPUDirect RDMA", id="EFA without RDMA"),
        pytest.param("ml.p3dn.24xlarge", 2, "no GPUDirect RDMA", id="the oldest EFA type"),
        pytest.param("ml.p4d.24xlarge", 2, None, id="EFA with RDMA"),
        pytest.param("ml.g7.12xlarge", 2, None, id="nobody knows of its RDMA"),
        pytest.param("ml.m5.xlarge", 4, None, id="CPUs wait for no gradients of GPUs"),
        pytest.param("ml.p9.48xlarge", 2, None, id="unknown type"),
    ],
)
def test_several_hosts_want_efa(judge, instance_type: str, hosts: int, found: str | None) -> None:
    findings = judge("EFA006", resources={"instance_type": instance_type, "instance_count": hosts})
    assert bool(findings) is (found is not None)
    for finding in findings:
        assert found in finding.message
        assert finding.message.startswith(f"{hosts} hosts of {instance_type}")
        assert finding.severity == "warning"
