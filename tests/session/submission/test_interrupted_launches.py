"""Launches that were cut off, and what the next start makes of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import Progress
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.refusal import AwsRefusal
from launcher.session.journal import Journal, JournalEntry
from tests.emulator.faults import (
    EXPIRED,
    inject,
)
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launching import PlanOf, entries, interrupt, launch, names


def test_an_interrupted_launch_goes_on_under_its_name(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf
) -> None:
    first = plan_of()
    interrupt(first, seconds_ago=130)
    told: list[Progress] = []
    assert launch(backend, plan_of(), told.append) == first.name
    assert script.requests == [first.request]
    assert "interrupted 2 minutes ago; it had created nothing yet" in told[0].step
    assert entries() == []


def test_a_launch_of_another_request_is_told_of_the_interrupted_ones_job(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf
) -> None:
    first = plan_of()
    launch(backend, first)
    interrupt(first)
    told: list[Progress] = []
    second = plan_of(hyperparameters={"lr": 0.1})
    assert launch(backend, second, told.append) == second.name
    assert f"its job {first.name}, of another request, is InProgress" in told[0].step


@pytest.mark.parametrize(("minutes", "goes_on"), [(59, True), (61, False)])
def test_an_interrupted_launch_whose_job_has_ended_is_meant_for_an_hour(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf, minutes: int, goes_on: bool
) -> None:
    first, second = plan_of(), plan_of()
    launch(backend, first)
    for _ in range(5):
        backend.describe(str(first.name))
    interrupt(first, seconds_ago=60 * minutes)
    assert launch(backend, second) == (first.name if goes_on else second.name)
    assert entries() == []


def test_a_launch_that_still_goes_on_is_left_alone(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf
) -> None:
    going_on, second = plan_of(), plan_of()
    claim = Journal().record(JournalEntry.of(going_on))
    assert launch(backend, second) == second.name
    claim.close()


def test_a_refused_look_at_the_interrupted_job_forgets_nothing(
    backend: SageMakerBackend, script: TrainingScript, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    first = plan_of()
    interrupt(first)
    inject(clients["sagemaker"], "DescribeTrainingJob", EXPIRED)
    with pytest.raises(AwsRefusal):
        launch(backend, plan_of())
    assert launch(backend, plan_of()) == first.name
    assert names(script) == [first.name]


def test_without_a_place_for_notes_the_launch_says_so_and_goes_on(
    backend: SageMakerBackend,
    script: TrainingScript,
    plan_of: PlanOf,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    told: list[Progress] = []
    plan = plan_of()
    launch(backend, plan, told.append)
    assert "no note of this launch can be kept" in told[0].step
    assert names(script) == [plan.name]


def test_a_launch_without_a_home_goes_on_without_its_note(
    monkeypatch: pytest.MonkeyPatch, backend: SageMakerBackend, plan_of: PlanOf, script: TrainingScript
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    told: list[Progress] = []
    plan = plan_of()
    launch(backend, plan, told.append)
    assert "no note of this launch can be kept (this user has no home folder)" in told[0].step
    assert names(script) == [plan.name]


def test_a_note_is_private_and_holds_nothing_of_the_request(plan_of: PlanOf) -> None:
    interrupt(plan_of(environment={"MY_SETTING": "planted-value"}))
    (entry,) = entries()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    assert sorted(json.loads(entry.read_text())) == [
        "fingerprint", "job", "name", "operation", "queue", "region", "started",
    ]  # fmt: skip
    assert "planted" not in entry.read_text()


def test_the_journal_survives_what_it_cannot_read(plan_of: PlanOf) -> None:
    journal, launch = Journal(), JournalEntry.of(plan_of())
    journal.folder.mkdir(parents=True)
    (journal.folder / "broken.json").write_text("{")
    (journal.folder / "other.json").write_text('{"a": 1}')
    (journal.folder / "folder.json").mkdir()
    assert list(journal.interrupted(launch)) == []
