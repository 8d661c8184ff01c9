"""`${NAME}` on the command line: what is sent has the values, what is shown the names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import launcher
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.sagemaker import TrainingScript

VALUES = {
    "SECRET": "planted-hunter2-value",
    "WHO": "planted-alice",
    "TYPE": "ml.p4d.24xlarge",
    "COUNT": "2",
    "TIME": "97m",
    "FLAG": "planted",
}
JOB: dict[str, Any] = {
    "name": "${WHO}-digits",
    "environment": {"TOKEN_FILE": "${SECRET}", "SHORT": "${COUNT}", "MIXED": "a-${FLAG}-b"},
    "hyperparameters": {"deep": {"key": ["${SECRET}"]}, "count": "${COUNT}"},
    "tags": {"owner": "${SECRET}"},
    "resources": {"instance_type": "${TYPE}", "instance_count": "${COUNT}"},
    "limits": {"max_runtime": "${TIME}"},
    "inputs": {"train": "s3://${SECRET}/data"},
    "checkpoint": {"s3_uri": "s3://${SECRET}/kept"},
}
CODE = {"source_dir": "src", "entry_point": "train.py"}
WRONG: dict[str, Any] = {
    "name": {"name": "${SECRET} !"},
    "max_runtime": {"limits": {"max_runtime": "${SECRET}"}},
    "max_runtime_seconds": {"limits": {"max_runtime_seconds": "${SECRET}"}},
    "instance_type": {"resources": {"instance_type": "ml.${SECRET}"}},
    "instance_count": {"resources": {"instance_type": "ml.m5.xlarge", "instance_count": "${SECRET}"}},
    "strategy": {"distribution": {"strategy": "${SECRET}"}},
    "inputs": {"inputs": {"train": "${SECRET}"}},
    "input mode": {"inputs": {"train": {"s3_uri": "s3://bucket/x", "mode": "${SECRET}"}}},
    "image": {"framework": None, "image": "http://${SECRET} x"},
    "cluster": {"cluster": "${SECRET}"},
    "cluster file": {"cluster": "./${SECRET}.json"},
    "tags": {"tags": {"a": {"b": "${SECRET}"}}},
    "tag": {"tags": {"a": "${SECRET}\x07"}},
    "long tag": {"tags": {"a": "${SECRET}" * 40}},
    "ignore": {"ignore": ["${SECRET}"]},
    "role": {"role_arn": "${SECRET}"},
    "region": {"region": "${SECRET}"},
    "entry point": {"code": {**CODE, "entry_point": "${SECRET}.py"}},
    "folder": {"code": {**CODE, "source_dir": "${SECRET}"}},
    "arguments": {
        "code": {**CODE, "arguments": ["--a", "${SECRET} &&"]},
        "distribution": {"strategy": "mpi"},
    },
    "subnets": {"network": {"subnets": ["${SECRET}"], "security_group_ids": ["${SECRET}"]}},
    "checkpoint": {"checkpoint": {"s3_uri": "${SECRET}"}},
    "resume": {"checkpoint": {"resume_from": "${SECRET} x"}},
    "metrics": {"metrics": {"loss": "(${SECRET}"}},
    "size": {"data": {"size": "${SECRET}"}},
    "a field that is not known": {"tag": "${SECRET}"},
}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)


@pytest.mark.few_cases(every=5)
@pytest.mark.parametrize("field", WRONG)
@pytest.mark.parametrize("command", [["check"], ["plan"]], ids=" ".join)
@pytest.mark.parametrize("output", ["text", "json"])
def test_no_value_is_repeated_whatever_is_wrong_with_it(
    run_launch: RunLaunch, write_job: WriteJob, field: str, command: list[str], output: str
) -> None:
    code, out, err = run_launch(*command, write_job(**WRONG[field]), "--output", output, "--set", "tags.b=c")
    assert code in (0, 1, 2)
    assert "planted" not in out + err
    assert "fault of the launcher" not in err


@pytest.mark.parametrize("field", ["max_runtime", "instance_type", "instance_count", "strategy", "inputs"])
def test_a_finding_names_the_variable_instead(run_launch: RunLaunch, write_job: WriteJob, field: str) -> None:
    _, out, _ = run_launch("check", write_job(**WRONG[field]), "--output", "json")
    assert any("${SECRET}" in finding["message"] for finding in json.loads(out)["findings"])


ON_AWS = {key: value for key, value in JOB.items() if key not in ("inputs", "checkpoint")}


def test_what_is_sent_has_the_values(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    file = write_job(**ON_AWS, cluster="dev")
    code, out, err = run_launch(file, "--yes", "--output", "json")
    assert code == 0, out + err
    (sent,) = account.requests
    assert sent["TrainingJobName"].startswith("planted-alice-digits-")
    assert sent["Environment"]["TOKEN_FILE"] == VALUES["SECRET"]
    assert sent["ResourceConfig"]["InstanceCount"] == 2
    assert sent["Tags"][0]["Value"] == VALUES["SECRET"]
    # The job's name is how it is found again; nothing else of the variables is told.
    assert VALUES["SECRET"] not in out + err
    assert json.loads(out)["job"]["tags"] == {"owner": "${SECRET}"}


def test_the_same_job_has_no_difference_to_an_earlier_one(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, name = write_job(**JOB), tmp_path / "sent.json"
    name.write_text(json.dumps(launcher.plan(file).request))
    code, out, _ = run_launch("plan", file, "--diff", name, "--output", "json")
    assert (code, json.loads(out)["diff"]) == (0, [])
    monkeypatch.setenv("SECRET", "another-planted-one")
    monkeypatch.setenv("COUNT", "4")
    code, out, err = run_launch("plan", file, "--diff", name, "--output", "json")
    lines = json.loads(out)["diff"]
    assert '-    "InstanceCount": 2,' in lines
    assert '+    "InstanceCount": "${COUNT}",' in lines
    changed = [line for line in lines if "TOKEN_FILE" in line and line[0] in "+-"]
    assert [line.rstrip(",") for line in changed] == [
        '-    "TOKEN_FILE": "[hidden]"',
        '+    "TOKEN_FILE": "${SECRET}"',
    ]
    assert "another-planted-one" not in out + err


def test_in_a_notebook_the_same_is_allowed(write_job: WriteJob) -> None:
    file = write_job(tags={"owner": "${WHO}", "flag": "${FLAG}"})
    made = launcher.plan(file, allow_env=["WHO", "FLAG"])
    assert {tag["Value"] for tag in made.request["Tags"]} == {VALUES["WHO"], VALUES["FLAG"]}
    (finding,) = launcher.plan(file, allow_env=["WHO"]).findings
    assert "--allow-env FLAG" in finding.remedy
