"""Large data in File mode: FSX006."""

from __future__ import annotations

from typing import Any

import pytest

P4D, M5 = "ml.p4d.24xlarge", "ml.m5.xlarge"


def s3(mode: str = "File", distribution: str = "FullyReplicated") -> dict[str, Any]:
    return {"s3_uri": "s3://data/train", "mode": mode, "distribution": distribution}


@pytest.mark.parametrize(
    ("size", "inputs", "resources", "found"),
    [
        pytest.param("500GB", {"train": s3()}, {}, None, id="500 GB"),
        pytest.param(500 * 10**9 + 1, {"train": s3()}, {}, "warning", id="a byte more"),
        pytest.param("2TB", {"train": s3("FastFile")}, {}, None, id="streamed"),
        pytest.param("2TB", {"train": {"lustre": "/train"}}, {}, None, id="on Lustre"),
        pytest.param("2TB", {"train": s3(), "corpus": {"lustre": "/c"}}, {}, None, id="nobody knows which"),
        pytest.param("2TB", {}, {}, None, id="no inputs"),
        pytest.param(None, {"train": s3()}, {}, None, id="size unknown"),
        pytest.param(
            "1TB", {"train": s3(distribution="ShardedByS3Key")}, {"instance_count": 2}, None, id="half each"
        ),
        pytest.param(
            "1TB", {"train": s3(distribution="ShardedByS3Key")}, {"instance_count": 1}, "warning", id="all"
        ),
        pytest.param("31GB", {"train": s3()}, {"instance_type": M5}, "warning", id="over the volume"),
        pytest.param("30GB", {"train": s3()}, {"instance_type": M5}, None, id="all of the volume"),
        pytest.param(
            "31GB", {"train": s3()}, {"instance_type": M5, "volume_size_gb": 40}, None, id="a larger volume"
        ),
    ],
)
def test_large_data_is_not_downloaded(
    severity_of, size: Any, inputs: dict, resources: dict, found: str | None
) -> None:
    job = {"inputs": inputs, "resources": {"instance_type": P4D, **resources}}
    data = {} if size is None else {"data": {"size": size}}
    assert severity_of("FSX006", **job, **data) == found


def test_what_does_not_fit_is_said(judge) -> None:
    (finding,) = judge("FSX006", inputs={"train": s3()}, data={"size": "10TB"})
    assert "10,000 GB" in finding.message
    assert "does not fit on its 8,000 GB" in finding.message
