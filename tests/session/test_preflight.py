"""What is said of this machine before a job is run on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import BackendError
from launcher.backends.local.interpreter import Interpreter
from launcher.backends.local.machine import Machine
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.load import load_job
from launcher.session.preflight import Preflight, look_before
from launcher.session.preparation import prepare

PYTHON = Interpreter(Path("/venv/bin/python"), (3, 12, 1), "2.8.0+cu128", "12.8")
MACHINE = Machine(PYTHON, gpus=tuple("01234567"), cores=8)
CPUS = replace(MACHINE, gpus=())
WITHOUT_TORCH = replace(MACHINE, python=replace(PYTHON, torch=None, cuda=None))

Look = Callable[..., Preflight]


@pytest.fixture
def look(write_job: Callable[..., Path], tmp_path: Path) -> Look:
    def look(
        machine: Machine,
        *,
        script: str = "",
        requirements: str = "",
        processes: int | None = None,
        **changes: Any,
    ) -> Preflight:
        job = {"resources": {"instance_type": "ml.g5.12xlarge", "instance_count": 2}, **changes}
        file = write_job(**job)
        (tmp_path / "src" / "train.py").write_text(script)
        (tmp_path / "src" / "requirements.txt").write_text(requirements)
        loaded = load_job(file)
        plan = prepare(loaded, session_region="us-east-1", ignore=["DIST001"])
        assert not plan.refused, plan.findings
        return look_before(plan, machine, {}, processes)

    return look


def test_nothing_is_said_of_a_machine_that_has_all(look: Look) -> None:
    assert look(MACHINE) == Preflight()


def test_what_only_aws_does_is_said_to_be_missing_here(look: Look) -> None:
    resources = {"instance_type": "ml.g5.12xlarge", "instance_count": 2, "infra_check": True}
    (note,) = look(MACHINE, resources=resources).notes
    assert note == "what only AWS does has no effect here: resources.infra_check: no hosts are tested"


def test_a_python_without_torch_is_refused_where_torch_is_needed(look: Look) -> None:
    with pytest.raises(BackendError, match="/venv/bin/python has no torch, and torchrun") as refused:
        look(WITHOUT_TORCH)
    assert "--python PATH" in refused.value.remedy
    assert "/venv/bin/python -m pip install torch" in refused.value.remedy
    none: dict[str, Any] = {
        "distribution": {"strategy": "none"},
        "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 1},
    }
    with pytest.raises(BackendError, match="the code imports it"):
        look(WITHOUT_TORCH, script="from torch import nn", **none)
    assert look(WITHOUT_TORCH, script="print('without torch')", **none) == Preflight()


@pytest.mark.parametrize(
    ("wanted", "brings"),
    [
        ("torch==2.8.0", True),
        ("pytorch_lightning", True),
        ("git+https://a.example/x.git", True),
        ("einops", False),
    ],
)
def test_a_python_without_torch_will_do_where_the_requirements_bring_it(
    look: Look, wanted: str, brings: bool
) -> None:
    if brings:
        assert look(WITHOUT_TORCH, requirements=wanted) == Preflight()
    else:
        with pytest.raises(BackendError, match="has no torch"):
            look(WITHOUT_TORCH, requirements=wanted)


@pytest.mark.parametrize(("torch", "said"), [("2.8.1", False), ("2.13.0+cpu", True), ("2.7.0", True)])
def test_another_minor_version_of_torch_is_said(look: Look, torch: str, said: bool) -> None:
    machine = replace(MACHINE, python=replace(PYTHON, torch=torch))
    notes = look(machine).notes
    assert [f"torch {torch}, and the job's image has 2.8" in note for note in notes] == [True] * said


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (CPUS, "there is no GPU on this machine"),
        (replace(MACHINE, gpus=("0", "1")), "there are 2 GPUs on this machine for 8 processes"),
        (replace(MACHINE, python=replace(PYTHON, cuda=None)), "a build without CUDA"),
    ],
)
def test_missing_gpus_are_said_where_the_instance_type_has_some(
    look: Look, machine: Machine, said: str
) -> None:
    [note] = look(machine).notes
    assert said in note
    assert "fails here, and would not on ml.g5.12xlarge" in note


def test_a_job_for_cpus_misses_no_gpu(look: Look) -> None:
    job: dict[str, Any] = {
        "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 2},
        "distribution": {"strategy": "torchrun", "processes_per_host": 2},
    }
    assert look(CPUS, **job).notes == ()


def test_more_than_two_processes_a_core_are_a_crowd(look: Look) -> None:
    assert look(replace(CPUS, cores=4)).crowd is None
    crowd = look(replace(CPUS, cores=3)).crowd
    assert crowd is not None
    assert crowd.what == "8 processes (2 hosts with 4 each) would start on this machine with 3 cores"
    assert "--processes 1" in crowd.remedy
    assert "--set resources.instance_count=1" in crowd.remedy


def test_only_what_would_help_against_a_crowd_is_advised(look: Look) -> None:
    one_host = look(
        replace(CPUS, cores=1), resources={"instance_type": "ml.g5.12xlarge", "instance_count": 1}
    ).crowd
    assert one_host is not None
    assert "--processes 1" in one_host.remedy
    assert "instance_count" not in one_host.remedy
    alone = look(
        replace(CPUS, cores=1),
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 3},
        distribution={"strategy": "torchrun", "processes_per_host": 1},
    ).crowd
    assert alone is not None
    assert "--processes 1" not in alone.remedy


def test_processes_that_the_strategy_does_not_start_are_refused(look: Look) -> None:
    with pytest.raises(Refusal, match="the strategy none starts 1 per host"):
        look(
            MACHINE,
            processes=3,
            distribution={"strategy": "none", "processes_per_host": 3},
            resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        )


def test_a_channel_without_a_folder_is_refused_before_anything_is_asked(look: Look) -> None:
    with pytest.raises(BackendError, match="--input train=DIR"):
        look(replace(MACHINE, cores=1), inputs={"train": {"s3_uri": "s3://bucket/train"}})
