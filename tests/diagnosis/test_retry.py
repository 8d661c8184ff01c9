"""Whether to run again: what would be different then? Each mode and row says why, in its family's file.

`never` costs a run that would have succeeded, `same` and `other-hosts` cost hosts for one that cannot.
"""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.match.rows import ROLES, rows_matching
from launcher.diagnosis.signatures import SIGNATURES


@pytest.mark.parametrize(
    ("line", "code", "retry"),
    [
        ("NVRM: Xid (PCI:0000:b2:00): 31, pid=7, name=python3, MMU Fault: ENGINE GRAPHICS", "HW002", "never"),
        ("NVRM: Xid (PCI:0000:b2:00): 79, pid=7, GPU has fallen off the bus.", "HW002", "other-hosts"),
        ("Failed to initialize NVML: Driver/library version mismatch", "IMG002", "other-hosts"),
        ("RuntimeError: CUDA error: system not yet initialized", "IMG002", "other-hosts"),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
            "IMG002",
            "other-hosts",
        ),
        ("RuntimeError: cuda runtime error (804) : forward compatibility was attempted", "IMG002", "never"),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:20000: "
            "Connection refused",
            "NCCL008",
            "never",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:20000: "
            "Connection refused",
            "NCCL008",
            "same",
        ),
        (
            "slipway: CKPT004 algo-1: not copied to s3://b/x: there is no such bucket. Correct it",
            "CKPT004",
            "never",
        ),
        (
            "slipway: CKPT004 algo-1: not copied to s3://b/x: S3 has answered SlowDown again and again",
            "CKPT004",
            "same",
        ),
    ],
)
def test_where_only_a_change_or_another_host_helps_nothing_else_is_advised(
    line: str, code: str, retry: str
) -> None:
    found = diagnose([Record(None, "algo-1", line)])
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.retry.value) == (code, retry)


def test_a_row_that_calls_for_something_else_wins_against_the_rows_of_its_mode() -> None:
    for row in SIGNATURES:
        if row.retry is not None:
            first = min(rows_matching(row.example), key=lambda each: (ROLES[each[0].role], each[0].vague))[0]
            assert first.retry is row.retry, row.example
