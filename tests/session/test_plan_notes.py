"""A plan is kept at the launch, as it may be shown, and found again by the job's name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.report.plan_summary import summary_of_plan
from launcher.report.run_report import NOT_KEPT
from launcher.session.plan_notes import PLAN_KEPT_SECONDS, read_plan_note, write_plan_note
from launcher.session.prepare_plan import prepare
from launcher.text.regular_files import cache_folder

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.fixture
def plan(write_job: Callable[..., Path]) -> TrainingPlan:
    job = write_job(environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": TOKEN}, ignore=["SPEC005"])
    return prepare(load_job(job), session_region="us-west-2")


def test_what_was_noted_is_what_the_plan_says_without_the_values_of_variables(plan: TrainingPlan) -> None:
    assert TOKEN in str(plan.request)
    write_plan_note("job-1", summary_of_plan(plan))
    assert TOKEN not in (cache_folder() / "plans" / "job-1.json").read_text("utf-8")
    noted, told = read_plan_note("job-1"), summary_of_plan(plan)
    assert noted is not None and noted.request is not None and told.request is not None
    assert (noted.findings, noted.cost, noted.usd_per_hour) == (told.findings, told.cost, told.usd_per_hour)
    assert noted.usd_per_hour
    assert any(setting.yours == f"NCCL_DEBUG={NOT_KEPT}" for setting in noted.settings)
    assert any(finding.code == "SPEC005" and finding.ignored for finding in noted.findings)
    assert noted.request["Environment"] == dict.fromkeys(told.request["Environment"], NOT_KEPT)
    assert noted.request["ResourceConfig"] == told.request["ResourceConfig"]


def test_what_stands_in_for_a_cluster_is_no_finding_about_a_run(plan: TrainingPlan) -> None:
    assert plan.placeholders
    shown = {finding.message for finding in summary_of_plan(plan).findings}
    assert shown and not [message for message in shown if "placeholder" in message]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"usd_per_hour": []}', "[" * 100_000, '"x"'])
def test_a_note_that_cannot_be_read_is_none(text: str) -> None:
    folder = cache_folder() / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job-2.json").write_text(text, "utf-8")
    assert read_plan_note("job-2") is None


def test_notes_of_long_ago_are_removed_and_none_is_kept_where_nothing_can_be(
    plan: TrainingPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan_note("job-1", summary_of_plan(plan))
    old = cache_folder() / "plans" / "job-1.json"
    made = old.stat().st_mtime - PLAN_KEPT_SECONDS - 60
    os.utime(old, (made, made))
    write_plan_note("job-2", summary_of_plan(plan))
    assert (read_plan_note("job-1"), read_plan_note("job-2") is not None) == (None, True)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    write_plan_note("job-2", summary_of_plan(plan))
    assert read_plan_note("job-2") is None
