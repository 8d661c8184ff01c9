"""What the service's reason of a failed job is a sign of."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.signs.sightings import finding_of_boot
from launcher.failure_modes import interruption
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import CATALOGUE
from tests.diagnosis.cases import records

FULL = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


# The container only prints STOP001: nobody asks for the reason of a job that was stopped.
WRITTEN = [mode for mode in CATALOGUE.values() if mode is not interruption.STOPPED]


@pytest.mark.parametrize("mode", WRITTEN, ids=lambda mode: mode.code)
def test_a_report_that_only_names_a_symptom_gives_way_and_any_other_does_not(mode: FailureMode) -> None:
    reason = f"AlgorithmError: {mode.code} rank 3 on algo-2: RuntimeError: x, exit code: 1"
    root = diagnose(records(FULL, "algo-1"), reason).root_cause
    assert root.finding.code == (mode.code if mode.symptom is None else "HW001")


def test_the_boots_diagnosis_becomes_a_finding() -> None:
    finding = finding_of_boot("AlgorithmError: CODE001 rank 3 on algo-2: ValueError: bad, exit code: 1")
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
    assert finding_of_boot(reason) is None


def test_a_message_of_many_lines_is_kept_whole() -> None:
    finding = finding_of_boot("AlgorithmError: MEM001 rank 0: out of memory\nTraceback:\n  x, exit code: 1")
    assert finding.message.endswith("Traceback:\n  x")


@pytest.mark.parametrize(
    ("said", "advised"),
    [
        (
            "CODE001 rank 0: the checkpoint holds more than weights, which torch.load refuses by default "
            "from torch 2.6 on",
            "Where you trust the checkpoint",
        ),
        ("IMG002 rank 0: torch is a build without NCCL", "Where no GPU is wanted, the backend is gloo"),
        ("CODE002 rank 0: the shell finds no torchrun", "torchrun comes with torch"),
    ],
)
def test_a_report_in_the_words_of_a_row_has_the_rows_remedy(said: str, advised: str) -> None:
    # Of a long exception the report has the last lines alone, which no row knows.
    reason = f"AlgorithmError: {said} (train.py:47)\n  what the exception says at its end, exit code: 1"
    root = diagnose((), reason).root_cause
    assert root is not None
    assert advised in root.finding.remedy
