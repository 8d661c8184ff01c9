"""The sections of a job file: code, resources, checkpoints, watchdog, ladder and MLflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.job_sections import PAUSES, STALL_SECONDS, WatchdogLimits
from launcher.jobs.load_job import load_job
from slipway.watchdog import judge_stall

WriteJob = Callable[..., Path]


@pytest.mark.parametrize(
    ("code", "program"),
    [({"entry_point": "run/train.sh"}, "run/train.sh"), ({"module": "pkg.train"}, "-m pkg.train")],
)
def test_a_script_or_a_module_is_started(write_job: WriteJob, code: dict[str, str], program: str) -> None:
    loaded = load_job(write_job(code=code))
    assert loaded.spec is not None, loaded.findings
    assert loaded.spec.code.program == program
    assert loaded.spec.code.argument_style == "spaced"


def test_further_types_keep_their_order(write_job: Callable[..., Path]) -> None:
    types = ["ml.p5.48xlarge", "ml.p4de.24xlarge"]
    spec = load_job(write_job(resources={"instance_type": "ml.p4d.24xlarge", "instance_types": types})).spec
    assert spec.resources.instance_types == types


@pytest.mark.parametrize(
    ("watchdog", "read"),
    [("off", "off"), ({"stall": "10m"}, WatchdogLimits(stall=600)), ({}, WatchdogLimits())],
)
def test_off_and_limits_are_taken(write_job: WriteJob, watchdog: Any, read: object) -> None:
    spec = load_job(write_job(watchdog=watchdog)).spec
    assert spec is not None
    assert spec.watchdog == read


def test_the_defaults_are_those_of_the_boot() -> None:
    assert (STALL_SECONDS, PAUSES) == (judge_stall.SHORTEST_STALL, judge_stall.PAUSES)


def test_what_is_told_keeps_the_text_of_the_file(write_job: WriteJob) -> None:
    file = write_job()
    file.write_text(
        f"{file.read_text()}ladder: {{few_steps: {{lr: 1e-3, on: true}}, synthetic: [--n, 1e3]}}\n"
    )
    spec = load_job(file).spec
    assert spec is not None
    assert spec.ladder is not None
    assert spec.ladder.few_steps == {"lr": "1e-3", "on": "true"}
    assert spec.ladder.synthetic == ["--n", "1e3"]


SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/team"


@pytest.mark.parametrize("arn", [SERVER, "arn:aws-cn:sagemaker:cn-north-1:111122223333:mlflow-app/a-1"])
def test_an_arn_names_a_server_or_an_app_and_its_region(write_job: Callable[..., Path], arn: str) -> None:
    spec = load_job(write_job(mlflow={"arn": arn})).spec
    assert spec is not None and spec.mlflow is not None
    assert spec.mlflow.region == arn.split(":")[3]
