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


@pytest.mark.parametrize(
    ("code", "subject", "says"),
    [
        ({"entry_point": "a.py", "module": "a"}, "code.module", "only one program"),
        ({"source_dir": "src"}, "code", "neither entry_point nor module"),
        ({"module": "pkg/train.py"}, "code.module", "does not have the form"),
        ({"module": "pkg..train"}, "code.module", "does not have the form"),
        ({"module": "-m"}, "code.module", "does not have the form"),
        ({"entry_point": "a.py", "argument_style": "dashes"}, "code.argument_style", "spaced"),
    ],
)
def test_what_names_no_program_is_refused_where_it_stands(
    write_job: WriteJob, code: dict[str, str], subject: str, says: str
) -> None:
    (finding,) = load_job(write_job(code=code)).findings
    assert (finding.code, finding.subject) == ("SPEC003", subject)
    assert says in finding.message
    assert finding.location is not None and finding.location.line >= 1


P4D = "ml.p4d.24xlarge"


def test_further_types_keep_their_order(write_job: Callable[..., Path]) -> None:
    types = ["ml.p5.48xlarge", "ml.p4de.24xlarge"]
    spec = load_job(write_job(resources={"instance_type": P4D, "instance_types": types})).spec
    assert spec.resources.instance_types == types


@pytest.mark.parametrize(
    ("types", "changes", "subject", "said"),
    [
        ([P4D], {}, "resources.instance_types.0", "tried already, as `instance_type`"),
        (["ml.p5.48xlarge"] * 2, {}, "resources.instance_types.1", "as number 1 of `instance_types`"),
        (["p5.48xlarge"], {}, "resources.instance_types.0", "does not have the form"),
        (
            ["ml.p5.48xlarge"],
            {"capacity": {"training_plan": "arn:aws:sagemaker:us-west-2:1:training-plan/p"}},
            "resources.instance_types",
            "a training plan holds hosts of one type",
        ),
    ],
)
def test_what_no_retry_could_try_is_refused_at_its_place(
    write_job: Callable[..., Path], types: list[str], changes: dict[str, Any], subject: str, said: str
) -> None:
    resources = {"instance_type": P4D, "instance_types": types, **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert (found.code, found.subject) == ("SPEC003", subject)
    assert said in found.message
    assert found.location.line > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "there is nothing to choose from"),
        ({"instance_types": ["ml.p5.48xlarge"], "capacity": "spot"}, "on demand alone"),
    ],
)
def test_a_choice_that_the_service_does_not_make_is_refused(
    write_job: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    resources = {"instance_type": P4D, "instance_choice": "service", **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert (found.code, found.subject) == ("SPEC003", "resources.instance_choice")
    assert said in found.message


def test_several_instance_groups_are_refused_for_what_they_are(write_job: Callable[..., Path]) -> None:
    groups = [{"instance_type": P4D, "instance_count": 2, "name": "trainers"}]
    (found,) = load_job(write_job(resources={"instance_groups": groups})).findings
    assert (found.code, found.subject) == ("SPEC003", "resources.instance_groups")
    assert "heterogeneous" in found.message


@pytest.mark.parametrize(
    ("changes", "subject", "said"),
    [
        (
            {"placement": {"together": [{"instance_count": 2}, {"instance_count": 1}]}},
            "resources.placement.together",
            "3 hosts are to be placed, and the job has 2",
        ),
        (
            {"placement": {}, "instance_types": [P4D], "instance_choice": "service"},
            "resources.placement",
            "where the service chooses the instance type",
        ),
        ({"placement": {"together": [{"instance_count": 0}]}}, None, "0 is not valid"),
    ],
)
def test_hosts_that_cannot_be_placed_are_refused(
    write_job: Callable[..., Path], changes: dict[str, Any], subject: str | None, said: str
) -> None:
    resources = {"instance_type": "ml.p6e-gb200.36xlarge", "instance_count": 2, **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert found.code == "SPEC003"
    assert subject in (None, found.subject)
    assert said in found.message


@pytest.mark.parametrize(
    ("checkpoint", "subject"),
    [
        pytest.param({"s3_uri": "s3://mine/c"}, "checkpoint", id="two places"),
        pytest.param({"sync": "slipway"}, "checkpoint.sync", id="nothing to move"),
        pytest.param({"local_path": "/opt/ml/mine"}, "checkpoint.local_path", id="mounted elsewhere"),
        pytest.param({"resume_from": "digits-1"}, "checkpoint.resume_from", id="nobody copies"),
    ],
)
def test_what_contradicts_lustre_is_refused_at_its_place(
    write_job: Callable[..., Path], checkpoint: dict[str, Any], subject: str
) -> None:
    loaded = load_job(write_job(checkpoint={"lustre": "/c", **checkpoint}))
    (found,) = loaded.findings
    assert (found.code, found.subject) == ("SPEC003", subject)
    assert found.location == loaded.location(*subject.split("."))


def test_the_channel_of_the_checkpoints_is_taken(write_job: Callable[..., Path]) -> None:
    inputs = {"checkpoints": "s3://mine/old"}
    (found,) = load_job(write_job(checkpoint={"lustre": "/c"}, inputs=inputs)).findings
    assert (found.code, found.subject) == ("SPEC003", "checkpoint.lustre")
    assert "mounted as the channel `checkpoints`" in found.message


def test_without_lustre_a_channel_may_be_called_so(write_job: Callable[..., Path]) -> None:
    inputs = {"checkpoints": {"lustre": "/c", "access": "rw"}}
    assert load_job(write_job(checkpoint={"s3_uri": "s3://mine/c"}, inputs=inputs)).findings == ()


@pytest.mark.parametrize(
    ("watchdog", "said"),
    [
        ("fast", "`watchdog`: 'fast' is neither off nor a mapping of limits"),
        ({"stall": "-3s"}, "`watchdog.stall`: '-3s' is not a duration"),
        ({"stall": 0}, "`watchdog.stall`: 0 is not valid"),
        ({"first": "30m"}, "unknown field `watchdog.first`"),
    ],
)
def test_a_mistake_is_one_error_at_its_field(write_job: WriteJob, watchdog: Any, said: str) -> None:
    loaded = load_job(write_job(watchdog=watchdog))
    assert loaded.spec is None
    (found,) = loaded.findings
    assert said in found.message


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


@pytest.mark.parametrize(
    ("ladder", "said"),
    [
        ({"few_steps": 5}, "write hyperparameters, such as {max_steps: 5}, or a list of arguments"),
        ({"synthetic": {}}, "write hyperparameters"),
        ({"synthetic": {"fake": None}}, "fake has no value"),
        ({"synthetic": {"fake": [1]}}, "must be a single value"),
        ({"steps": 5}, "unknown field `ladder.steps`"),
    ],
)
def test_what_cannot_be_told_is_refused(write_job: WriteJob, ladder: Any, said: str) -> None:
    loaded = load_job(write_job(ladder=ladder))
    assert loaded.spec is None
    assert any(said in found.message for found in loaded.findings)


SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/team"


@pytest.mark.parametrize("arn", [SERVER, "arn:aws-cn:sagemaker:cn-north-1:111122223333:mlflow-app/a-1"])
def test_an_arn_names_a_server_or_an_app_and_its_region(write_job: Callable[..., Path], arn: str) -> None:
    spec = load_job(write_job(mlflow={"arn": arn})).spec
    assert spec is not None and spec.mlflow is not None
    assert spec.mlflow.region == arn.split(":")[3]


@pytest.mark.parametrize("arn", ["team", "http://localhost:5000", SERVER.replace("mlflow-tracking", "x")])
def test_what_is_no_mlflow_of_sagemaker_is_refused_at_its_place(
    write_job: Callable[..., Path], arn: str
) -> None:
    (found,) = load_job(write_job(mlflow={"arn": arn})).findings
    assert (found.code, found.subject) == ("SPEC003", "mlflow.arn")
    assert found.location.line > 1
