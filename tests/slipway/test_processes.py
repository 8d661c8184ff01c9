"""What a stop leaves of the time that SageMaker gives; real processes are stopped in test_boot."""

from __future__ import annotations

from slipway.processes import SWEEP_SECONDS, StopRequest

SECONDS_TO_SIGKILL = 120.0
"""Between SIGTERM and SIGKILL (API reference, StopTrainingJob)."""


def test_after_the_grace_there_is_time_to_sweep_and_to_write_the_failure() -> None:
    sweep = 2 * SWEEP_SECONDS  # asked first, then killed
    assert StopRequest().grace + sweep < SECONDS_TO_SIGKILL


def test_the_script_has_most_of_the_time_to_save_its_checkpoint() -> None:
    assert StopRequest().grace > 0.9 * SECONDS_TO_SIGKILL
