"""`from launcher import plan, check, launch`, as in a notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

import launcher
from launcher import LaunchRefusedError, Refusal
from launcher.failure_modes.model import Severity
from tests.emulator.sagemaker import TrainingScript

WriteJob = Callable[..., Path]
NO_ENTRY_POINT = {"source_dir": "src", "entry_point": "no.py"}


@pytest.mark.parametrize("count", [4, "4"])
def test_a_plan_is_made_from_a_file_with_changes(write_job: WriteJob, count: object) -> None:
    made = launcher.plan(write_job(), set={"resources.instance_count": count})
    assert made.request["ResourceConfig"]["InstanceCount"] == 4


@pytest.mark.parametrize(
    ("value", "kept"), [(1e-05, "1e-05"), (True, "true"), ([1, 2], [1, 2]), ({"a": None}, {"a": None})]
)
def test_a_hyperparameter_is_the_one_that_was_given(write_job: WriteJob, value: object, kept: object) -> None:
    # Numbers and truth values are kept as they are written, as a job file's are.
    made = launcher.plan(write_job(), set={"hyperparameters": {"lr": value}})
    assert made.job["hyperparameters"]["lr"] == kept


def test_a_value_that_no_job_file_can_hold_is_refused_by_its_field(write_job: WriteJob) -> None:
    with pytest.raises(Refusal, match=r"hyperparameters\.lr.*complex"):
        launcher.plan(write_job(), set={"hyperparameters.lr": 1j})


def test_an_ignored_finding_blocks_no_plan(write_job: WriteJob) -> None:
    file = write_job(code=NO_ENTRY_POINT)
    assert launcher.plan(file).refused
    assert not launcher.plan(file, ignore=["CODE002"]).refused


def test_a_check_returns_what_is_found(write_job: WriteJob) -> None:
    assert "CODE002" in [finding.code for finding in launcher.check(write_job(code=NO_ENTRY_POINT))]


def test_informations_on_a_submission_are_no_findings_of_a_local_run(write_job: WriteJob) -> None:
    file = write_job(cluster="nobody-s")
    assert Severity.INFO in [finding.severity for finding in launcher.check(file)]
    assert Severity.INFO not in [finding.severity for finding in launcher.check(file, local=True)]


def test_a_live_check_finds_what_the_account_says(write_job: WriteJob, account: TrainingScript) -> None:
    file, ec2 = write_job(), boto3.client("ec2")
    for group in ec2.describe_security_groups()["SecurityGroups"]:
        if group["IpPermissions"] and group["GroupName"] != "default":
            ec2.revoke_security_group_ingress(GroupId=group["GroupId"], IpPermissions=group["IpPermissions"])
    assert "EFA001" not in {finding.code for finding in launcher.check(file, cluster="dev")}
    assert "EFA001" in {finding.code for finding in launcher.check(file, cluster="dev", live=True)}
    assert account.requests == []


def test_a_live_check_of_a_refused_file_with_placeholders_asks_nothing(write_job: WriteJob) -> None:
    found = launcher.check(write_job(code=NO_ENTRY_POINT), live=True)
    assert {finding.stage for finding in found if finding.blocks} == {"spec"}


def test_a_run_here_is_not_checked_against_an_account(write_job: WriteJob) -> None:
    with pytest.raises(Refusal, match="asks nothing of an AWS account"):
        launcher.check(write_job(), local=True, live=True)


@pytest.mark.usefixtures("without_the_sdk")
def test_a_launch_without_the_sdk_returns_the_job_that_it_created(
    write_job: WriteJob, account: TrainingScript, capsys: pytest.CaptureFixture[str]
) -> None:
    job = launcher.launch(write_job(), cluster="dev")
    assert job.name == account.requests[0]["TrainingJobName"]
    assert job.status().phase == "Starting"
    assert f"submitted {job.name}" in capsys.readouterr().err


def test_a_run_that_launches_again_gets_the_first_job(write_job: WriteJob, account: TrainingScript) -> None:
    file = write_job()
    names = {launcher.launch(file, cluster="dev", run_id="nightly-7").name for _ in range(2)}
    assert names == {account.requests[0]["TrainingJobName"]}
    assert len(account.requests) == 1


def test_a_launch_that_is_refused_raises_with_the_findings(write_job: WriteJob) -> None:
    with pytest.raises(LaunchRefusedError, match="CODE002") as refused:
        launcher.launch(write_job(code=NO_ENTRY_POINT))
    assert "CODE002" in [finding.code for finding in refused.value.findings]


def test_a_local_launch_that_is_refused_raises_with_the_findings(write_job: WriteJob) -> None:
    with pytest.raises(LaunchRefusedError, match="CODE002"):
        launcher.launch(write_job(code=NO_ENTRY_POINT), local=True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"local": True, "run_id": "a"}, "jobs on AWS"),
        ({"inputs": {"train": "."}}, "runs elsewhere"),
        ({"local": True, "inputs": {"train": "/nowhere"}}, "train /nowhere"),
        ({"processes": 1}, "runs on this machine"),
        ({"local": True, "processes": 0}, "processes=0 is not a number"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    write_job: WriteJob, arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(Refusal, match=reason):
        launcher.launch(write_job(), **arguments)


def test_a_crowd_is_refused_with_the_argument_that_makes_it_smaller(write_job: WriteJob) -> None:
    hosts = {"resources.instance_count": 1000}
    with pytest.raises(Refusal, match="would start on this machine") as refused:
        launcher.launch(write_job(), local=True, set=hosts, ignore=["DIST001"])
    assert "processes=1, or fewer hosts with set={'resources.instance_count': 1}" in str(refused.value)
    # Fewer processes than accelerators are what was asked for: nothing says to take the argument back.
    with pytest.raises(Refusal, match="1000 hosts with 1 each") as still:
        launcher.launch(write_job(), local=True, set=hosts, processes=1)
    assert "processes" not in still.value.remedy and "--" not in str(still.value)


def test_a_local_run_has_the_python_that_is_given(write_job: WriteJob, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"there is no Python .*nowhere"):
        launcher.launch(write_job(), local=True, processes=1, python=tmp_path / "nowhere")


def test_plan_and_findings_show_themselves(write_job: WriteJob) -> None:
    file = write_job(code={"source_dir": "src", "entry_point": "<b>.py"})
    found, made = launcher.check(file), launcher.plan(file)
    for text in (str(found), str(made)):
        assert "error CODE002 at" in text and "<b>.py" in text and text.count("placeholder") == 1
    for page in (found._repr_html_(), made._repr_html_()):
        assert "<b>error CODE002 at" in page and "&lt;b&gt;.py" in page and "<b>.py" not in page
    assert "hosts: 2 × ml.p4d.24xlarge" in str(made) and "TrainingJobName" in made._repr_html_()
    assert len(repr(made)) < 200


def test_a_local_run_ends_with_its_process(local_job: Callable[[str], Path], tmp_path: Path) -> None:
    file = local_job("import time; time.sleep(600)")
    program = f"from launcher import launch; print(launch({str(file)!r}, local=True).name)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(launcher.__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    status = (tmp_path / ".slipway/local" / run.stdout.strip() / "status.json").read_text()
    assert '"Stopped"' in status


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("torch", ["2.8.0", None])
def test_a_local_run_has_the_python_of_the_notebook_where_that_has_torch(
    local_job: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str | None
) -> None:
    kernel, active = (_python(tmp_path / name / "bin" / "python", torch) for name in ("kernel", "active"))
    monkeypatch.setattr(sys, "executable", str(kernel))
    monkeypatch.setenv("VIRTUAL_ENV", str(active.parents[1]))
    _python(active, "2.7.0")
    job = launcher.launch(local_job("print('ran')"), local=True)
    assert job.wait(60).succeeded
    status = json.loads((tmp_path / ".slipway/local" / job.name / "status.json").read_text())
    assert status["python"] == str(kernel if torch else active)


def _python(path: Path, torch: str | None) -> Path:
    """A Python that says to have that torch, and is this one."""
    answer = json.dumps({"slipway": 1, "version": [3, 12, 1], "torch": torch, "cuda": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then echo \'{answer}\'; else exec {sys.executable} "$@"; fi\n'
    )
    path.chmod(0o755)
    return path


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = "import sys, launcher; print([name for name in sys.modules if name.startswith('launcher.')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert [name for name in launcher.__all__ if getattr(launcher, name, None) is None] == []
