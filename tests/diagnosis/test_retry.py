"""Whether to run again, for every failure mode that the diagnosis names: what would be different then?

`never` costs a run that would have succeeded, `same` and `other-hosts` cost hosts for one that cannot.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.match.rows import ROLES, rows_matching
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.signatures.table import SIGNATURES
from launcher.failure_modes.catalogue import CATALOGUE

PLANNED = json.loads((Path(__file__).parents[1] / "failure_modes" / "planned_stages.json").read_text())

RETRY = {
    "never": {
        "EFA001 EFA002 EFA003": "the account's network is for the next job what it was for this one",
        "EFA005 EFA007": "image and variables choose libfabric and its plugin, and stay",
        "NCCL004": "ranks that disagree do so again at the same step",
        "NCCL005": "mostly memory, /dev/shm or memlock, which the next job has as little of",
        "NCCL007": "mostly the network's rules or NCCL_SOCKET_IFNAME, which stay",
        "NCCL010": "the image and requirements.txt bring both versions again",
        "DIST001 DIST003 DIST004 DIST007 DIST008": "the job file or the script starts the processes",
        "DBG001 DBG002": "the request has the hook again",
        "CKPT003 CKPT005 CKPT007": "the script saves and loads in the same way",
        "CKPT009": "the damaged checkpoint would be read again",
        "FSX005": "file system, path and ports stay",
        "S3001 S3002 IAM001": "bucket and policies stay",
        "DATA001 DATA002 DATA009": "the script splits and unpacks the data in the same way",
        "DATA005 DATA010": "the workers take as much of /dev/shm and as many descriptors again",
        "DDP001 DDP002 DDP003 DDP006": "the model is the same",
        "MEM001 MEM002": "as much is asked for again",
        "XLA001 XLA002 XLA007 XLA008": "job file, script and compiler are the same",
        "CAP002": "a quota is raised by request only",
        "IMG001 IMG002 IMG003": "the image is the same",
        "CODE001 CODE002 CODE003 CODE005": "the code is the same",
        "CODE004": "native code that crashes once mostly crashes again; a second host shows whether it does",
        "DISK001": "as much is written again",
        "NUM001": "from the same checkpoint with the same rate the loss diverges again",
    },
    "same": {
        "NCCL008": "a host came too late; all hosts of the next job begin together",
        "NCCL009": "the port is held by a process of that moment",
        "CKPT004": "SageMaker's internal error; its own RetryStrategy repeats it, too",
        "STOP001": "nothing failed",
        "DISK002": "two processes met in one cache, which the next one finds filled",
    },
    "other-hosts": {
        "NCCL006": "without another cause in reach a lost connection is a lost host",
        "NCCL011": "the GPUs of that host, or its driver",
        "MPI001": "a host that is gone",
        "HW001 HW002 NEU001": "the device is broken",
        "MEM003": "another process holds the GPU of that host",
    },
    "later": {
        "CAP001": "AWS has none at the moment",
        "HUB001": "a hub that is overloaded or down comes back",
    },
}
EXPECTED = {code: retry for retry, modes in RETRY.items() for codes in modes for code in codes.split()}

EXCEPTIONS = {
    "never": {
        "MMU Fault: ENGINE GRAPHICS": "Xid 31 is the program's own access",
        "connect [127.0.1.1]": "the image resolves a host's name to itself, on every host",
        "S3 denies it": "the role stays",
        "host='huggingface.co', port=443): Max retries exceeded": "the subnets have no way out",
        "couldn't find them in the cached files": "the subnets have no way out",
        "cannot find the requested files in the local cache": "the subnets have no way out",
        "Temporary failure in name resolution": "the subnets have no way out",
        "Name or service not known": "the subnets have no way out",
        "gated repo": "the token may not read it",
        "403 Client Error: Forbidden for url: https://huggingface.co": "the token may not read it",
        "HfHubHTTPError: 403 Forbidden": "the token may not read it",
        "GatedRepoError": "the token may not read it",
        "is not a valid model identifier": "the hub does not know the name, or the token may not read it",
        "Couldn't reach 'acme/corpus'": "the subnets have no way out",
        "Cannot connect to host huggingface.co": "the subnets have no way out",
        "offline mode is enabled": "the job's own HF_HUB_OFFLINE forbids to ask",
        "LocalTokenNotFoundError": "the job has no token",
        "DatasetNotFoundError": "the hub does not know the name, or the token may not read it",
        "RepositoryNotFoundError": "the hub does not know the name, or the token may not read it",
    },
    "same": {
        "Read timed out": "one answer was slow",
        "The read operation timed out": "one answer was slow",
    },
    "other-hosts": {
        "Driver/library version mismatch": "that host's driver was changed while it ran",
        "system not yet initialized": "that host's fabric manager does not run",
    },
}
"""Rows that call for something else than their mode: a part of their example, and why."""

ROOTS = [
    pytest.param(row, id=f"{row.code}-{number}")
    for number, row in enumerate(SIGNATURES)
    if row.role.may_be_root
]


def test_every_mode_of_the_diagnosis_has_an_answer_and_a_reason() -> None:
    assert set(EXPECTED) == {code for code, stages in PLANNED.items() if "D" in stages}
    assert {code: CATALOGUE[code].retry.value for code in EXPECTED} == EXPECTED


@pytest.mark.parametrize("row", ROOTS)
def test_every_row_gives_the_retry_of_its_mode_but_for_those_with_a_reason(row: Signature) -> None:
    named = [retry for retry, parts in EXCEPTIONS.items() for part in parts if part in row.example]
    assert (row.retry or row.mode.retry).value == (named[0] if named else EXPECTED[row.code])


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


def test_every_exception_is_about_a_row() -> None:
    parts = [part for each in EXCEPTIONS.values() for part in each]
    assert [part for part in parts if not any(part in row.values[0].example for row in ROOTS)] == []


def test_a_row_that_calls_for_something_else_wins_against_the_rows_of_its_mode() -> None:
    for row in SIGNATURES:
        if row.retry is not None:
            first = min(rows_matching(row.example), key=lambda each: (ROLES[each[0].role], each[0].vague))[0]
            assert first.retry is row.retry, row.example
