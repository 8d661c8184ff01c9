"""The version and the image of a job, on each of its instance types and without Training Compiler."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Refusal, Severity
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import native_counterpart
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import read_source
from tests.planning.comparison import differences, plan_of

DAY = date(2026, 11, 22)


def planned(
    folder: Path, instance_type: str = "ml.p5.48xlarge", *, day: date = DAY, **fields: Any
) -> TrainingPlan:
    (folder / "train.py").write_text("print(1)")
    resources = {"instance_type": instance_type, **fields.pop("resources", {})}
    job = JobSpec.model_validate(
        {
            "name": "g",
            "role_arn": "arn:aws:iam::111122223333:role/r",
            "code": {"entry_point": "train.py"},
            "framework": {},
            "resources": resources,
            **fields,
        }
    )
    source = read_source(folder, "train.py")
    return plan_job(job, None, unique="0unique", source=source, session_region="us-west-2", today=day)


@pytest.mark.parametrize(
    ("instance_type", "fields", "version", "reason"),
    [
        ("ml.p5.48xlarge", {}, "2.14", "newest patched that fits; the end of its patches is not known here"),
        ("ml.m5.xlarge", {"framework": {"version": "latest"}}, "2.14", "newest patched that fits"),
        # Not in the regions of 2.14, but in those of 2.13.
        ("ml.p5.48xlarge", {"region": "us-gov-west-1"}, "2.13.0", "patches until 2027-07-20"),
        ("ml.p5.48xlarge", {"framework": {"python": "py313"}}, "2.14", "newest patched"),
        # CUDA 13 makes no code for V100: nothing that is patched runs there.
        ("ml.p3.16xlarge", {}, "2.8.0", "newest that fits; no patches since 2026-08-06"),
        ("ml.trn2.48xlarge", {}, "2.9.0", "newest that fits"),
        ("ml.p4d.24xlarge", {"distribution": {"strategy": "smddp"}}, "2.3.0", "no patches since 2025-04-24"),
        (
            "ml.p4d.24xlarge",
            {"distribution": {"strategy": "smp", "options": {"version": 2}}},
            "2.5.1",
            "newest that fits",
        ),
        (
            "ml.p4d.24xlarge",
            {"framework": {"name": "tensorflow"}, "distribution": {"strategy": "none"}},
            "2.21.0",
            "2027-07-10",
        ),
        # It must run on each type that a retry may take.
        (
            "ml.p5.48xlarge",
            {"resources": {"instance_types": ["ml.p3.16xlarge"]}},
            "2.8.0",
            "newest that fits",
        ),
    ],
)
def test_the_newest_patched_version_that_runs_the_job_is_taken(
    tmp_path: Path, instance_type: str, fields: dict[str, Any], version: str, reason: str
) -> None:
    plan = planned(tmp_path, instance_type, **fields)
    assert plan.version_choice is not None
    assert plan.version_choice.version == version
    assert reason in plan.version_choice.reason


def test_the_plan_and_the_request_hold_the_version_that_was_chosen(tmp_path: Path) -> None:
    plan = planned(tmp_path, region="us-gov-west-1")
    assert plan.job["framework"]["version"] == "2.13.0"
    assert plan.spec is not None and plan.spec.framework is not None
    assert plan.spec.framework.version == "2.13.0"
    assert plan.request is not None
    assert plan.request["AlgorithmSpecification"]["TrainingImage"].endswith(
        "/pytorch:2.13-cu133-amzn2023-sagemaker"
    )


def test_on_another_day_another_version_is_the_newest_patched_one(tmp_path: Path) -> None:
    tensorflow = {"framework": {"name": "tensorflow"}, "distribution": {"strategy": "none"}}
    before = planned(tmp_path, day=date(2027, 7, 10), **tensorflow).version_choice
    after = planned(tmp_path, day=date(2027, 7, 11), **tensorflow).version_choice
    assert before is not None and after is not None
    assert "patches until" in before.reason
    assert "no patches since" in after.reason


def test_where_no_version_fits_the_newest_says_why(tmp_path: Path) -> None:
    plan = planned(tmp_path, "ml.p6e-gb200.36xlarge")
    assert plan.version_choice is not None
    assert (plan.version_choice.version, plan.version_choice.reason) == (
        "2.14",
        "the newest there is; none fits",
    )
    assert [finding.code for finding in plan.findings if "arm64" in finding.message] == ["IMG002"]


def test_a_version_that_the_job_names_is_not_chosen(tmp_path: Path) -> None:
    plan = planned(tmp_path, framework={"version": "2.8"})
    assert plan.version_choice is None
    assert plan.job["framework"]["version"] == "2.8"


@pytest.mark.parametrize(
    ("version", "day", "says"),
    [
        ("2.6.0", DAY, "gpu-py312 (since 2026-01-29); it runs"),
        ("1.9.1", DAY, "AWS no longer patches"),
        ("2.10.0", DAY, None),
        ("2.10.0", date(2027, 2, 1), "(since 2027-01-21); it runs"),
        ("2.14", DAY, None),
    ],
)
def test_the_end_of_patches_is_an_information(
    tmp_path: Path, version: str, day: date, says: str | None
) -> None:
    plan = planned(tmp_path, "ml.g5.xlarge", framework={"version": version}, day=day)
    found = [finding for finding in plan.findings if finding.code == "IMG001"]
    assert [finding.severity.value for finding in found] == (["info"] if says else [])
    assert all(says is not None and says in finding.message for finding in found)
    assert not plan.refused


def test_the_information_names_the_versions_that_are_patched(tmp_path: Path) -> None:
    plan = planned(tmp_path, framework={"version": "2.6.0"})
    (found,) = (finding for finding in plan.findings if finding.code == "IMG001")
    assert found.remedy.startswith("PyTorch 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14 get patches")


JOB: dict[str, Any] = {
    "name": "g",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "2.0.1"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "smddp"},
}


def plan(*instance_types: str, **changes: Any) -> TrainingPlan:
    resources = {**JOB["resources"], "instance_types": list(instance_types)}
    return plan_of({**JOB, "resources": resources, **changes})


def errors(found: TrainingPlan) -> list[tuple[str, str | None]]:
    return [(each.code, each.subject) for each in found.findings if each.severity is Severity.ERROR]


def test_types_that_run_the_job_change_nothing_in_the_request() -> None:
    with_others, alone = plan("ml.p4de.24xlarge", "ml.p3dn.24xlarge"), plan()
    assert not with_others.refused
    assert with_others.request == alone.request


@pytest.mark.parametrize(
    ("instance_type", "changes", "code"),
    [
        pytest.param("ml.g5.48xlarge", {}, "DIST002", id="the strategy is not there"),
        pytest.param(
            "ml.g5.xlarge",
            {"distribution": {"strategy": "torchrun", "processes_per_host": 8}},
            "DIST003",
            id="fewer devices than processes",
        ),
        pytest.param(
            "ml.trn1.32xlarge",
            {"distribution": {"strategy": "torchrun"}, "framework": {"version": "2.10.0"}},
            "IMG001",
            id="no image for its devices",
        ),
    ],
)
def test_a_type_that_cannot_run_the_job_is_an_error_at_its_place(
    instance_type: str, changes: dict[str, Any], code: str
) -> None:
    found = plan("ml.p4de.24xlarge", instance_type, **changes)
    assert found.refused
    assert found.request is not None
    assert errors(found) == [(code, "resources.instance_types.1")]
    (finding,) = [each for each in found.findings if each.code == code]
    assert instance_type in finding.message


def test_what_is_wrong_on_every_type_is_said_once() -> None:
    changes = {"framework": {"version": "2.8.0"}}
    assert errors(plan("ml.p4de.24xlarge", **changes)) == [("DIST002", "framework.version")]


COMPILED: dict[str, Any] = {
    "name": "g",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "1.12"},
    "hyperparameters": {"lr": 0.1},
    "resources": {"instance_type": "ml.p3.16xlarge", "instance_count": 2},
    "distribution": {"strategy": "torch_xla", "options": {"debug": True}},
    "inputs": {"train": "s3://bucket/train"},
    "environment": {"MINE": "1"},
}


def test_the_pair_differs_in_the_compiler_alone() -> None:
    compiled = JobSpec.model_validate(COMPILED)
    changed = differences(
        native_counterpart(compiled).model_dump(mode="json"), compiled.model_dump(mode="json")
    )
    named = ("distribution.", "framework.python", "framework.version")
    assert changed["distribution.strategy"] == ("torchrun", "torch_xla")
    assert [path for path in changed if not path.startswith(named)] == []


def test_both_run_the_same_pytorch_and_python_on_the_same_processes() -> None:
    compiled = plan_of(COMPILED)
    native = plan_of(
        native_counterpart(JobSpec.model_validate(COMPILED)).model_dump(mode="json", exclude_none=True)
    )
    images = [plan.request["AlgorithmSpecification"]["TrainingImage"] for plan in (compiled, native)]
    assert [image.rpartition("/")[2] for image in images] == [
        "pytorch-trcomp-training:1.12.0-gpu-py38",
        "pytorch-training:1.12.0-gpu-py38",
    ]
    assert compiled.world_size == native.world_size == 16
    assert compiled.request["ResourceConfig"] == native.request["ResourceConfig"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"distribution": {"strategy": "torchrun"}}, "without Training Compiler"),
        ({"framework": None, "image": "repository/image:tag"}, "its own image"),
    ],
)
def test_what_has_no_pair_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        native_counterpart(JobSpec.model_validate({**COMPILED, **changes}))
