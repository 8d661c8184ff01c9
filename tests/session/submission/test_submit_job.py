"""Launches that were cut off, and a run that launches the same job again, from wherever: one job."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from launcher.backends.interface import JobState, Progress
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.planning.finished_request import without_host_token
from launcher.session.submit_job import Journal, JournalEntry, Start, run_id_of
from tests.backends.sagemaker.conftest import Emulated
from tests.emulator.faults import EXPIRED, inject
from tests.session.submission.launches import entries, interrupt, launch, names


def test_an_interrupted_launch_goes_on_under_its_name(aws: Emulated) -> None:
    first = aws.plan_of()
    interrupt(first, seconds_ago=130)
    told: list[Progress] = []
    assert launch(aws.backend, aws.plan_of(), told.append) == first.name
    assert [without_host_token(each) for each in aws.script.requests] == [first.request]
    assert "interrupted 2 minutes ago; it had created nothing yet" in told[0].step
    assert entries() == []


def test_a_launch_of_another_request_is_told_of_the_interrupted_ones_job(aws: Emulated) -> None:
    first = aws.plan_of()
    launch(aws.backend, first)
    interrupt(first)
    told: list[Progress] = []
    second = aws.plan_of(hyperparameters={"lr": 0.1})
    assert launch(aws.backend, second, told.append) == second.name
    assert f"its job {first.name}, of another request, is InProgress" in told[0].step


@pytest.mark.parametrize(("minutes", "goes_on"), [(59, True), (61, False)])
def test_an_interrupted_launch_whose_job_has_ended_is_meant_for_an_hour(
    aws: Emulated, minutes: int, goes_on: bool
) -> None:
    first, second = aws.plan_of(), aws.plan_of()
    launch(aws.backend, first)
    for _ in range(5):
        aws.backend.describe(str(first.name))
    interrupt(first, seconds_ago=60 * minutes)
    assert launch(aws.backend, second) == (first.name if goes_on else second.name)
    assert entries() == []


def test_a_launch_that_still_goes_on_is_left_alone(aws: Emulated) -> None:
    going_on, second = aws.plan_of(), aws.plan_of()
    claim = Journal().record(JournalEntry.of_plan(going_on))
    assert launch(aws.backend, second) == second.name
    claim.close()


def test_a_refused_look_at_the_interrupted_job_forgets_nothing(aws: Emulated) -> None:
    first = aws.plan_of()
    interrupt(first)
    inject(aws.clients["sagemaker"], "DescribeTrainingJob", EXPIRED)
    with pytest.raises(AwsRefusal):
        launch(aws.backend, aws.plan_of())
    assert launch(aws.backend, aws.plan_of()) == first.name
    assert names(aws.script) == [first.name]


def test_without_a_place_for_notes_the_launch_says_so_and_goes_on(
    aws: Emulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    plans = [aws.plan_of(), aws.plan_of()]
    for plan, said in zip(plans, ("", " (this user has no home folder)"), strict=True):
        told: list[Progress] = []
        launch(aws.backend, plan, told.append)
        assert f"no note of this launch can be kept{said}" in told[0].step
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert names(aws.script) == [plan.name for plan in plans]


def test_a_note_is_private_and_holds_nothing_of_the_request(aws: Emulated) -> None:
    interrupt(aws.plan_of(environment={"MY_SETTING": "planted-value"}))
    (entry,) = entries()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    kept = "fingerprint job name operation queue region started"
    assert sorted(json.loads(entry.read_text())) == kept.split()
    assert "planted" not in entry.read_text()


def test_the_journal_survives_what_it_cannot_read(aws: Emulated) -> None:
    journal, launch = Journal(), JournalEntry.of_plan(aws.plan_of())
    journal.folder.mkdir(parents=True)
    (journal.folder / "broken.json").write_text("{")
    (journal.folder / "other.json").write_text('{"a": 1}')
    (journal.folder / "folder.json").mkdir()
    assert list(journal.interrupted(launch)) == []


def test_a_run_names_its_job_and_the_prefixes_and_needs_no_note(aws: Emulated) -> None:
    name = launch(aws.backend, aws.plan_of(checkpoint={}), run_id="nightly-7")
    [request] = aws.script.requests
    assert request["CheckpointConfig"]["S3Uri"] == f"s3://dev-checkpoints/{name}"
    assert entries() == []


def test_two_homes_with_one_run_id_have_one_job(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    first = launch(aws.backend, aws.plan_of(), run_id="nightly-7")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    second = launch(aws.backend, aws.plan_of(), told.append, run_id="nightly-7")
    assert second == first
    assert names(aws.script) == [first]
    assert told[-1].step == f"the run nightly-7 has launched this job already: {first} is InProgress"
    assert first.startswith("digits-") and len(first) == len(str(aws.plan_of().name))


def test_another_run_and_other_content_are_other_jobs(aws: Emulated) -> None:
    started = [
        launch(aws.backend, aws.plan_of(), run_id="nightly-7"),
        launch(aws.backend, aws.plan_of(), run_id="nightly-8"),
        launch(aws.backend, aws.plan_of(hyperparameters={"lr": 0.1}), run_id="nightly-7"),
        launch(aws.backend, aws.plan_of()),
    ]
    assert len(set(started)) == 4
    assert names(aws.script) == started


def test_a_job_that_ended_is_still_the_runs_and_the_way_to_another_is_said(aws: Emulated) -> None:
    aws.script.failure_reason = "AlgorithmError: out of luck, exit code: 1"
    name = launch(aws.backend, aws.plan_of(), run_id="nightly-7")
    while not aws.backend.describe(name).state.is_final:
        pass
    begun = Start(aws.backend, "nightly-7").begun(aws.plan_of())
    assert begun is not None
    assert (begun.name, begun.state) == (name, JobState.FAILED)
    assert "another --run-id launches it again" in begun.news
    assert launch(aws.backend, aws.plan_of(), run_id="nightly-7") == name
    assert names(aws.script) == [name]


def test_launches_of_one_run_at_the_same_moment_make_one_job(aws: Emulated) -> None:
    start = Start(aws.backend, "nightly-7")
    # Neither has seen the other's job when it sends its own.
    plans = [start.named(aws.plan_of()), start.named(aws.plan_of())]
    assert [aws.backend.submit(plan) for plan in plans] == [plans[0].name] * 2
    assert names(aws.script) == [plans[0].name]


GITHUB = {"GITHUB_REPOSITORY": "team/models", "GITHUB_RUN_ID": "123", "GITHUB_RUN_ATTEMPT": "1"}


REPEATED = {**GITHUB, "GITHUB_RUN_ATTEMPT": "2"}
IDS: list[tuple[str | None, dict[str, str], str | None]] = [
    # In CI the run is its own, and stays it when it is repeated.
    (None, GITHUB, "team/models:123"),
    (None, REPEATED, "team/models:123"),
    (None, {"CODEBUILD_BUILD_ID": "train:8f1c"}, "train:8f1c"),
    # Half an identity is none.
    (None, {"GITHUB_RUN_ID": "123"}, None),
    (None, {**GITHUB, "GITHUB_REPOSITORY": ""}, None),
    (None, {}, None),
    # What is given goes before the environment, and an empty one is none.
    ("mine", GITHUB, "mine"),
    ("", GITHUB, None),
]


@pytest.mark.parametrize(("given", "environment", "run_id"), IDS)
def test_the_id_of_a_run(given: str | None, environment: dict[str, str], run_id: str | None) -> None:
    assert run_id_of(given, environment) == run_id


@pytest.mark.parametrize("given", ["two words", "line\nbreak", "x" * 129, "ümlaut"])
def test_an_id_that_could_not_be_told_from_others_is_refused(given: str) -> None:
    with pytest.raises(Refusal, match="is not an id of a run"):
        run_id_of(given, {})
