"""What a request says of secrets: names, for the boot; and where there is no boot, nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding
from launcher.jobs.load import load_job
from launcher.planning.planner import plan_job
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import source_of
from tests.planning.test_tuning_job import TUNING

SECRETS = {"HF_TOKEN": "team/hf", "WANDB_API_KEY": "team/wandb"}
P4D: dict[str, Any] = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
Plan = Callable[..., TrainingPlan]


@pytest.fixture
def plan_of(write_job: Callable[..., Path]) -> Plan:
    def plan(**fields: Any) -> TrainingPlan:
        job = load_job(write_job(**{"secrets": SECRETS, "resources": P4D, **fields})).spec
        assert job is not None
        source = source_of(job, Path(str(write_job(**fields))).parent)
        return plan_job(
            job, None, unique="0unique", source=source, session_region="us-west-2", today=date(2026, 11, 22)
        )

    return plan


def about_secrets(plan: TrainingPlan) -> list[Finding]:
    return [found for found in plan.findings if found.path == ("secrets",)]


@pytest.mark.parametrize(
    "distribution",
    [{"strategy": "torchrun"}, {"strategy": "none"}, {"strategy": "smp", "options": {"version": 2}}],
    ids=lambda value: value["strategy"],
)
def test_the_boot_is_told_the_names_in_one_variable(plan_of: Plan, distribution: dict[str, Any]) -> None:
    plan = plan_of(distribution=distribution, framework={"version": "2.5.1"})
    assert plan.request is not None
    environment = plan.request["Environment"]
    assert json.loads(environment["SLIPWAY_SECRETS"]) == SECRETS
    assert not set(SECRETS) & set(environment)
    assert RequestView(plan.request).secrets == SECRETS
    assert not about_secrets(plan)


def test_a_request_without_secrets_has_no_such_variable(plan_of: Plan) -> None:
    plan = plan_of(secrets={}, distribution={"strategy": "torchrun"})
    assert plan.request is not None
    assert "SLIPWAY_SECRETS" not in plan.request["Environment"]
    assert RequestView(plan.request).secrets == {}


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_what_another_request_has_there_is_no_secret(text: str) -> None:
    assert RequestView({"Environment": {"SLIPWAY_SECRETS": text}}).secrets == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": {"strategy": "smddp"}},
        {"distribution": {"strategy": "mpi"}},
        {"distribution": {"strategy": "smp", "options": {"version": 1}}},
        {"distribution": {"strategy": "torch_xla"}},
        {"distribution": {"strategy": "torchrun"}, "tuning": TUNING},
        {"distribution": {"strategy": "smddp"}, "tuning": TUNING},
    ],
    ids=str,
)
def test_what_the_images_toolkit_starts_gets_none_and_is_refused(
    plan_of: Plan, fields: dict[str, Any]
) -> None:
    plan = plan_of(**fields)
    (found,) = about_secrets(plan)
    assert (found.code, found.blocks) == ("SPEC003", True)
    assert "the script would not have HF_TOKEN, WANDB_API_KEY" in found.message
    assert plan.request is None


def test_more_names_than_a_variable_holds_are_refused_at_their_field(plan_of: Plan) -> None:
    arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"
    plan = plan_of(secrets={f"TOKEN_{number}": arn for number in range(8)}, distribution={"strategy": "none"})
    (found,) = about_secrets(plan)
    assert (found.code, found.blocks) == ("SPEC004", True)
    assert found.remedy == "Change `secrets`: at most 512 characters."
