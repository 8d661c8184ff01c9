"""Remedies and retries that fit the fact, also where the container reported it in general words."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.record import Record

RESOLVE = (
    "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', "
    "port=443): Max retries exceeded with url: /roberta-base/resolve/main/config.json (Caused by "
    'NameResolutionError("Failed to resolve \'huggingface.co\'"))"))'
)
FACTS = [
    ("train.py: error: unrecognized arguments: true", "CODE002", "never", "`code.arguments`"),
    (
        "train.py: error: unrecognized arguments: --foo true",
        "CODE002",
        "never",
        "declare it there with add_argument",
    ),
    ("train.py: error: argument --n: invalid int value: ''", "CODE002", "never", "leave the argument out"),
    ("RuntimeError: Found no NVIDIA driver on your system. Please", "CODE001", "never", "type with GPUs"),
    ("AssertionError: Torch not compiled with CUDA enabled", "CODE001", "never", "type with GPUs"),
    (RESOLVE, "HUB001", "never", "NAT gateway"),
    (
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the "
        "cached files",
        "HUB001",
        "never",
        "HF_HUB_OFFLINE",
    ),
    (
        "OSError: There was a specific connection error when trying to load x/y: 429 Client Error",
        "CODE001",
        "never",
        "Repair",
    ),
    (
        "huggingface_hub.utils._errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
        "https://huggingface.co/api/datasets/x",
        "HUB001",
        "later",
        "Download once",
    ),
    (
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read timed "
        "out. (read timeout=10)",
        "HUB001",
        "same",
        "Download once",
    ),
    ("OSError: You are trying to access a gated repo.", "HUB001", "never", "as HF_TOKEN in the job file"),
    ("KeyError: 'x'", "CODE001", "never", "Repair"),
]


def judged(diagnosis: Diagnosis) -> tuple[str, str]:
    assert diagnosis.root_cause is not None
    return diagnosis.root_cause.finding.code, diagnosis.retry.value


@pytest.mark.parametrize(("text", "code", "retry", "remedy"), FACTS)
def test_a_line_has_the_remedy_that_fits(text: str, code: str, retry: str, remedy: str) -> None:
    lines = [text]
    if not text.startswith("train.py"):
        lines = ["Traceback (most recent call last):", '  File "/opt/ml/code/train.py", line 3, in f', text]
    diagnosis = diagnose([Record(None, "algo-1", f"[rank1]:{line}") for line in lines])
    assert judged(diagnosis) == (code, retry)
    assert diagnosis.root_cause is not None
    assert remedy in diagnosis.root_cause.finding.remedy


@pytest.mark.parametrize(("text", "code", "retry", "remedy"), FACTS)
def test_so_has_what_the_container_reported(text: str, code: str, retry: str, remedy: str) -> None:
    reported = "CODE002" if text.startswith("train.py") else "CODE001"
    reason = f"AlgorithmError: {reported} rank 1 on algo-1: {text} (train.py:3), exit code: 1"
    diagnosis = diagnose([], reason)
    assert judged(diagnosis) == (code, retry)
    assert diagnosis.root_cause is not None
    assert remedy in diagnosis.root_cause.finding.remedy
    assert diagnosis.root_cause.rank == 1


@pytest.mark.parametrize(
    "text",
    [
        "wandb: Network error (ConnectionError), entering retry loop.",
        "WARNING urllib3.connectionpool Retrying (Retry(total=2)) after connection broken by "
        "'NewConnectionError': /simple/einops/",
        "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
        "url: /x\"))' thrown while requesting HEAD https://huggingface.co/x. Retrying in 1s [Retry 1/5].",
        "HTTP Error 429 thrown while requesting GET https://huggingface.co/api/models/x",
        "Rate limited. Waiting 207.0s before retry [Retry 1/5].",
    ],
)
def test_what_is_tried_again_is_no_failure(text: str) -> None:
    assert diagnose([Record(None, "algo-1", f"[rank0]:{text}")]).root_cause is None


def test_what_ended_without_a_word_is_not_sent_to_a_traceback() -> None:
    found = diagnose([], failure_reason="AlgorithmError: CODE001 rank 0 on algo-1: exited with code 2")
    assert judged(found) == ("CODE001", "never")
    assert found.root_cause is not None
    assert "`set -ex`" in found.root_cause.finding.remedy
