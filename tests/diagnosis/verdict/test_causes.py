"""What is said of a stop, and of how to go on after it."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import End, Ending, Stop, StopCause, Verdict
from launcher.failure_modes.model import Severity

NOON = 1_790_000_000.0


@pytest.mark.parametrize(
    ("stop", "words", "remedy"),
    [
        (
            Stop(StopCause.ASKED, "Ctrl-C in its launcher (process 7)", NOON),
            "stopped by Ctrl-C in its launcher (process 7) at 2026-09-21 14:13:20 UTC",
            "launch resume llama-1",
        ),
        (
            Stop(StopCause.MAX_RUNTIME, at=NOON, limit=45.0),
            "stopped by limits.max_runtime (45s) at 2026-09-21 14:13:20 UTC",
            "Raise limits.max_runtime",
        ),
        (Stop(StopCause.MAX_WAIT, at=NOON, limit=7200), "limits.max_wait (2h)", "Raise limits.max_wait"),
        (Stop(StopCause.SPOT, at=NOON), "its spot hosts were taken at", "launch resume llama-1"),
        (Stop(StopCause.LAUNCHER, "process 7"), "its launcher (process 7) was killed, and", "launch resume"),
        (Stop(StopCause.QUEUE, "budget"), "taken out of the queue: budget", "Launch the job file again"),
    ],
    ids=lambda value: str(value.cause) if isinstance(value, Stop) else "",
)
def test_a_stop_says_who_when_and_how_to_go_on(stop: Stop, words: str, remedy: str) -> None:
    diagnosis = diagnose([], ending=Ending(End.STOPPED, "llama-1", stop))
    finding = diagnosis.root_cause.finding
    assert (diagnosis.verdict, finding.code) == (Verdict.STOPPED, "STOP001")
    assert words in finding.message
    assert remedy in finding.remedy
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("cause", [each for each in StopCause if each is not StopCause.QUEUE])
def test_a_job_without_checkpoints_is_not_advised_to_go_on_from_one(cause: StopCause) -> None:
    ending = Ending(End.STOPPED, "llama-1", Stop(cause), checkpoints=False)
    remedy = diagnose([], ending=ending).root_cause.finding.remedy
    assert "starts from the beginning" in remedy
    assert "resume" not in remedy
