"""Reading a diagnosis that the container wrote."""

from __future__ import annotations

import pytest

from launcher.diagnosis.failure_reason import finding_of
from launcher.failure_modes.model import Stage


def test_the_boots_diagnosis_becomes_a_finding() -> None:
    finding = finding_of("AlgorithmError: CODE001 rank 3 on algo-2: ValueError: bad, exit code: 1")
    assert (finding.code, finding.stage, finding.subject) == ("CODE001", Stage.RUNTIME, "rank 3")
    assert finding.message == "rank 3 on algo-2: ValueError: bad"


@pytest.mark.parametrize(
    "reason",
    [
        None,
        "",
        "AlgorithmError: , exit code: 1",
        "ClientError: Please ensure that the subnet's route table has a route to S3",
        "AlgorithmError: ABC123 is no code of ours",
        "InternalServerError: We encountered an internal error. Please try again.",
    ],
)
def test_a_reason_in_other_words_is_left_to_the_reader(reason: str | None) -> None:
    assert finding_of(reason) is None


def test_a_message_of_many_lines_is_kept_whole() -> None:
    finding = finding_of("AlgorithmError: MEM001 rank 0: out of memory\nTraceback:\n  x, exit code: 1")
    assert finding.message.endswith("Traceback:\n  x")
