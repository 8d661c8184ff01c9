"""The handle of a launched job: how it is, what it prints, how it ends, and what a notebook shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import launcher
from launcher import Job, Refusal
from launcher.api import Telling, card
from launcher.backends.interface import JobState, JobStatus, Progress
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Stage
from launcher.session.runs.diagnose_job import Outcome
from tests.emulator.sagemaker import TrainingScript

WriteJob = Callable[..., Path]
LocalJobFile = Callable[[str], Path]
WAITS = "import time; print('here', flush=True); time.sleep(600)"


def test_a_local_job_is_waited_for_and_read(
    local_job: LocalJobFile, capsys: pytest.CaptureFixture[str]
) -> None:
    job = launcher.launch(local_job("print('one'); print('two')"), local=True)
    outcome = job.wait(60, logs=True)
    printed = capsys.readouterr()
    assert outcome.succeeded
    assert "algo-1 two" in printed.out
    assert "[Completed]" in printed.err
    assert [line.text for line in job.logs(grep="^t")] == ["two"]
    assert str(job.logs(host=1, grep="^one")) == "algo-1 one"
    with pytest.raises(Refusal, match="no rank 99"):
        job.logs(rank=99)
    with pytest.raises(Refusal, match="has no host algo-2"):
        job.logs(host="algo-2")
    assert job.wait() is outcome
    assert ">Completed<" in job._repr_html_()


def test_a_failed_local_job_tells_its_cause(local_job: LocalJobFile) -> None:
    job = launcher.launch(local_job("raise ValueError('a <b> value')"), local=True)
    assert not job.wait(60).succeeded
    cause = job.diagnosis().root_cause
    assert cause is not None
    assert "ValueError" in cause.finding.message
    shown = job._repr_html_()
    assert ">Failed<" in shown
    assert "a &lt;b&gt; value" in shown


def test_a_local_job_runs_in_the_background_until_it_is_stopped(local_job: LocalJobFile) -> None:
    job = launcher.launch(local_job(WAITS), local=True)
    assert job.status().state is JobState.IN_PROGRESS
    assert "InProgress" in job._repr_html_()
    with pytest.raises(TimeoutError, match=f"{job.name} has not ended"):
        job.wait(0)
    job.stop()
    assert job.wait(60).status.state is JobState.STOPPED
    job.stop()


def test_a_local_job_is_found_when_the_notebook_has_changed_its_folder(
    local_job: LocalJobFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = launcher.launch(local_job("print('done')"), local=True)
    monkeypatch.chdir(tmp_path / "src")
    assert job.wait(60).succeeded
    assert "done" in str(job.logs())


def test_an_interrupted_wait_leaves_the_job_running(
    local_job: LocalJobFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = launcher.launch(local_job(WAITS), local=True)
    with monkeypatch.context() as patch:

        def interrupted(text: str) -> None:
            raise KeyboardInterrupt

        patch.setattr("launcher.api.tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            job.wait()
    assert job.status().state is JobState.IN_PROGRESS
    job.stop()
    job.wait(60)


def test_the_sdk_knows_nothing_of_a_local_job(local_job: LocalJobFile) -> None:
    job = launcher.launch(local_job("pass"), local=True)
    with pytest.raises(Refusal, match="runs on this machine"):
        job.sdk_resource()
    job.wait(60)


@pytest.mark.usefixtures("without_the_sdk")
def test_without_the_sdk_a_job_on_aws_does_all_but_its_resource(
    write_job: WriteJob, account: TrainingScript
) -> None:
    account.logs = {"algo-1": ["loss=1", "loss=2"], "algo-2": ["RuntimeError: out"]}
    account.failure_reason = "AlgorithmError: RuntimeError: out, exit code: 1"
    job = launcher.launch(write_job(), cluster="dev")
    assert repr(job) == f"<Job {job.name} in us-west-2>"
    assert f"<code>{job.name}</code>" in job._repr_html_()
    outcome = job.wait()
    assert outcome.status.state is JobState.FAILED
    assert outcome.diagnosis is not None
    assert [line.text for line in job.logs(grep="loss")] == ["loss=1", "loss=2"]
    with pytest.raises(Refusal, match="SDK, version 3, cannot be imported") as refused:
        job.sdk_resource()
    assert "extra `sdk`" in refused.value.remedy


def test_the_resource_of_the_sdk_comes_when_it_is_asked_for(
    write_job: WriteJob, account: TrainingScript
) -> None:
    before = set(sys.modules)
    job = launcher.launch(write_job(), cluster="dev")
    assert not any(name.startswith("sagemaker") for name in set(sys.modules) - before)
    resource = job.sdk_resource()
    assert type(resource).__name__ == "TrainingJob"
    assert resource.training_job_name == job.name


def test_a_tuning_job_has_the_same_handle_and_its_own_resource(
    write_job: WriteJob, account: TrainingScript
) -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": [0.1, 0.01]},
        "max_jobs": 2,
    }
    job = launcher.launch(write_job(tuning=tuning), cluster="dev")
    assert job.name.startswith("digits-")
    assert job.status().name == job.name
    resource = job.sdk_resource()
    assert type(resource).__name__ == "HyperParameterTuningJob"
    assert resource.hyper_parameter_tuning_job_name == job.name


def test_a_job_that_cannot_be_seen_is_shown_with_the_reason(
    write_job: WriteJob, account: TrainingScript
) -> None:
    made = launcher.launch(write_job(), cluster="dev")
    shown = Job(made._backend, "<gone>")._repr_html_()
    assert "<b>&lt;gone&gt;</b>" in shown
    assert "there is no" in shown


def test_what_speaks_against_a_success_is_on_the_card() -> None:
    warning = distribution.RANKS_NEVER_MET.finding(
        Stage.LOG, "none of the 4 ranks <b>met</b>", remedy="Pass strategy='ddp'.", subject="algo-1"
    )
    shown = card(Outcome(JobStatus("digits-1", JobState.COMPLETED, "Completed"), warnings=(warning,)))
    assert ">Completed<" in shown
    assert "<b>DIST008</b> none of the 4 ranks &lt;b&gt;met&lt;/b&gt;" in shown
    assert "→ Pass strategy=&#x27;ddp&#x27;." in shown


def test_a_success_that_nothing_speaks_against_is_a_line() -> None:
    shown = card(Outcome(JobStatus("digits-1", JobState.COMPLETED, "Completed", seconds=61.0), warnings=()))
    assert shown.count("<br>") == 0
    assert "<code>digits-1</code> 1m01s" in shown


def test_a_quick_launch_tells_its_news_alone() -> None:
    told: list[str] = []
    telling = Telling(lambda: 0.0, told.append)
    telling.progress(1, 3, "ec2")
    telling.submission(Progress("uploading source.tar.gz", 1, 2))
    telling.submission(Progress("submitted digits-1"))
    assert told == ["submitted digits-1"]


def test_a_long_one_tells_how_far_it_is_now_and_then() -> None:
    told: list[str] = []
    seconds = iter([0.0, 1.9, 2.0, 2.0, 3.0, 12.0, 12.0])
    telling = Telling(lambda: next(seconds), told.append)
    for answered in range(4):
        telling.progress(answered, 9, "ec2")
    assert told == [
        "looking at the account: 1 of 9 answers, waiting for ec2",
        "looking at the account: 3 of 9 answers, waiting for ec2",
    ]
