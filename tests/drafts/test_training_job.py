"""A request back to its job file: a plan of that asks for the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from launcher.cluster.manifest import Cluster
from launcher.drafts.job_draft import JobDraft, render_draft
from launcher.drafts.training_job import draft_of_request
from launcher.jobs.load_job import load_job
from launcher.jobs.specification import JobSpec
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import read_source
from tests.case_files import put
from tests.peers.answers import JOB
from tests.peers.cases import all_cases, merged
from tests.planning.comparison import DAY, differences, plan_of
from tests.planning.plan_cases import Group, make_plan, read_groups
from tests.planning.test_golden import GOLDEN
from tests.planning.test_properties import jobs_that_fit, many, tuning_jobs

UNIQUE = "01hqzx5n2e7kd4m9w"
ROOT = Path(__file__).parents[2]


def draft_of(plan: TrainingPlan) -> JobDraft:
    assert plan.request is not None
    return draft_of_request(plan.request, region=plan.region or "us-west-2", origin="Made by a test.")


def planned_again(draft: JobDraft, folder: Path, cluster: Cluster | None, like: TrainingPlan) -> TrainingPlan:
    """The plan of the draft's file, written and read, under the unique part of another plan."""
    file = folder / "job.yaml"
    file.write_text(render_draft(draft), "utf-8")
    loaded = load_job(file)
    assert loaded.spec is not None, (loaded.findings, file.read_text("utf-8"))
    assert like.name is not None
    return plan_job(
        loaded.spec,
        cluster,
        unique=like.name.rpartition("-")[2],
        source=read_source(Path("/nowhere"), "train.py"),
        session_region="us-west-2",
        today=DAY,
    )


def unlike(plan: TrainingPlan, folder: Path, cluster: Cluster | None = None) -> dict[str, Any]:
    """Where the request of a plan and that of its draft's plan differ."""
    assert plan.request is not None
    again = planned_again(draft_of(plan), folder, cluster, plan)
    return differences(again.request or {}, plan.request)


EXAMPLES = {file.parent.name: file for file in sorted((ROOT / "examples").glob("*/job.yaml"))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_comes_back_from_its_request(name: str, tmp_path: Path, manifest: dict[str, Any]) -> None:
    job = yaml.safe_load(EXAMPLES[name].read_text("utf-8"))
    cluster = {**manifest, "name": job["cluster"]} if job.get("cluster") else None
    plan = plan_of(job, UNIQUE, cluster)
    assert unlike(plan, tmp_path, None if cluster is None else Cluster.model_validate(cluster)) == {}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_job_comes_back_from_its_request(name: str, tmp_path: Path) -> None:
    assert unlike(plan_of(GOLDEN[name]["job"], UNIQUE), tmp_path) == {}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_request_of_the_sdk_becomes_the_job_of_which_it_was_made(name: str) -> None:
    job = GOLDEN[name]["job"]
    text = json.dumps(GOLDEN[name]["request"]).replace("BUCKET", "bucket").replace("JOBNAME", "g")
    data = draft_of_request(json.loads(text), region="us-west-2", origin="").data()
    given = {"strategy": "none", **job.get("distribution", {})}
    assert data["distribution"]["strategy"] == given["strategy"]
    for option in ("parameters", "mpi_options"):
        own = given.get("options", {})
        assert data["distribution"].get("options", {}).get(option) == own.get(option)
    assert data.get("hyperparameters", {}) == job.get("hyperparameters", {})
    assert data["framework"]["version"] == job["framework"]["version"]
    assert data["resources"]["instance_type"] == job["resources"]["instance_type"]
    assert data["code"]["entry_point"] == job["code"]["entry_point"]
    assert data.get("inputs") == job.get("inputs")


def test_a_job_of_a_peers_test_comes_back_from_its_request(tmp_path: Path) -> None:
    jobs = [
        merged(merged(JOB, {}), layers)
        for case in all_cases()
        if case.kind not in ("live", "cluster")
        for layers in [_merged(case.given["layers"])]
    ]
    plans = [plan_of(job, UNIQUE) for job in jobs if _is_valid(job)]
    plans = [plan for plan in plans if plan.request is not None and not plan.refused]
    assert len(plans) > 50
    assert [found for plan in plans if (found := unlike(plan, tmp_path))] == []


def _merged(layers: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for layer in layers:
        whole = merged(whole, layer)
    return whole


def _is_valid(job: dict[str, Any]) -> bool:
    try:
        JobSpec.model_validate(job)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("group", [*read_groups()], ids=lambda group: group.name)
def test_a_planned_job_comes_back_from_its_request(
    group: Group, manifest: dict[str, Any], tmp_path: Path
) -> None:
    for changes, _ in group.cases:
        plan = make_plan(changes, manifest, UNIQUE)
        if plan.request is None or plan.refused or ("cluster" in changes and "manifest" not in changes):
            continue
        cluster = put(manifest, changes["manifest"]) if "manifest" in changes else None
        found = unlike(plan, tmp_path, None if cluster is None else Cluster.model_validate(cluster))
        assert found == {}, changes


@pytest.mark.few_cases("40")
@pytest.mark.parametrize("examples", [40, 400])
def test_any_job_that_can_be_planned_comes_back_from_its_request(examples: int, tmp_path: Path) -> None:
    @settings(many, max_examples=examples)
    @given((jobs_that_fit() | tuning_jobs()).filter(_is_valid))
    def holds(job: dict[str, Any]) -> None:
        plan = plan_of(job, UNIQUE)
        if plan.request is not None and not plan.refused and "cluster" not in job:
            assert unlike(plan, tmp_path) == {}

    holds()
