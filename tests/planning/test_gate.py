"""What a request tells the boot of the health gate; where there is no boot, nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding
from launcher.jobs.load import load_job
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import source_of
from tests.planning.test_tuning_job import TUNING

Plan = Callable[..., TrainingPlan]


@pytest.fixture
def plan_with_gate(write_job: Callable[..., Path]) -> Plan:
    def plan(hosts: int = 2, **fields: Any) -> TrainingPlan:
        resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": hosts}
        file = write_job(**{"resources": resources, "distribution": {"strategy": "torchrun"}, **fields})
        job = load_job(file).spec
        assert job is not None
        source = source_of(job, Path(str(file)).parent)
        return plan_job(
            job, None, unique="0unique", source=source, session_region="us-west-2", today=date(2026, 11, 22)
        )

    return plan


def told(plan: TrainingPlan) -> str | None:
    assert plan.view is not None
    return plan.view.boot_options.get("--gate")


def about_gate(plan: TrainingPlan) -> list[Finding]:
    return [found for found in plan.findings if found.path == ("gate",)]


@pytest.mark.parametrize(("hosts", "mode"), [(1, "warn"), (2, "on"), (16, "on")])
def test_several_hosts_are_refused_and_one_is_warned(plan_with_gate: Plan, hosts: int, mode: str) -> None:
    assert told(plan_with_gate(hosts)) == mode


@pytest.mark.parametrize("mode", ["off", "warn", "on"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_what_the_job_file_says_stands(plan_with_gate: Plan, hosts: int, mode: str) -> None:
    assert told(plan_with_gate(hosts, gate=mode)) == mode


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": {"strategy": "smddp"}},
        {"distribution": {"strategy": "mpi"}},
        {"distribution": {"strategy": "smp", "options": {"version": 1}}},
        {"distribution": {"strategy": "torch_xla"}},
        {"tuning": TUNING},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["on", "warn"])
def test_a_gate_is_refused_where_the_images_toolkit_starts_the_script(
    plan_with_gate: Plan, fields: dict[str, Any], mode: str
) -> None:
    (found,) = about_gate(plan_with_gate(gate=mode, **fields))
    assert (found.code, found.blocks) == ("SPEC003", True)
    assert "nobody would look at them" in found.message


@pytest.mark.parametrize("fields", [{}, {"gate": "off"}])
def test_no_gate_is_fine_there(plan_with_gate: Plan, fields: dict[str, Any]) -> None:
    assert not about_gate(plan_with_gate(distribution={"strategy": "smddp"}, **fields))
