"""`launch plan` beside something else, and findings: what, where, what to do, and no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from launcher.cli.interaction import console
from launcher.cli.plan import show_findings
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Location, Severity, Stage
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training


def test_a_plan_is_compared_with_a_dry_run_that_was_kept(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    file = write_job()
    _, kept, _ = run_launch(file, "--dry-run", "--output", "json")
    (tmp_path / "kept.json").write_text(kept)
    assert "no difference" in run_launch("plan", file, "--diff", tmp_path / "kept.json")[1]

    changed = ["--set", "resources.instance_count=3", "--output", "json"]
    code, out, _ = run_launch("plan", file, "--diff", tmp_path / "kept.json", *changed)
    assert code == 0
    assert '+    "InstanceCount": 3,' in json.loads(out)["diff"]


def test_a_plan_is_compared_with_a_job_of_the_account(
    run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    file = write_job(role_arn="arn:aws:iam::111122223333:role/r", output={"s3_uri": "s3://bucket/out"})
    _, out, _ = run_launch("plan", file, "--output", "json")
    request = json.loads(out)["request"]
    with mock_aws(), emulated_training(TrainingScript()):
        boto3.client("sagemaker", region_name="us-west-2").create_training_job(**request)
        arguments = ["--diff", request["TrainingJobName"], "--set", "resources.volume_size_gb=99"]
        _, out, _ = run_launch("plan", file, *arguments, "--output", "json")
    assert any('"VolumeSizeInGB": 99' in line for line in json.loads(out)["diff"])


def test_a_file_without_a_request_is_refused(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "deep.json").write_text("[" * 1_000_000)
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("other.json", "deep.json", "pipe.json"):
        code, _, err = run_launch("plan", write_job(), "--diff", tmp_path / name)
        assert code == 2
        assert f"{name} holds no request" in err


def test_a_pair_differs_by_the_compiler_alone(run_launch: RunLaunch, write_job: WriteJob) -> None:
    file = write_job(
        framework={"version": "1.13.1", "python": "py39"},
        resources={"instance_type": "ml.p3.16xlarge", "instance_count": 2},
        distribution={"strategy": "torch_xla"},
    )
    _, out, _ = run_launch("plan", file, "--pair", "--output", "json")
    compiled, native = (each["request"] for each in json.loads(out)["pair"])
    assert "trcomp" in compiled["AlgorithmSpecification"]["TrainingImage"]
    assert "trcomp" not in native["AlgorithmSpecification"]["TrainingImage"]
    assert compiled["ResourceConfig"] == native["ResourceConfig"]


def test_a_job_without_the_compiler_has_no_pair(run_launch: RunLaunch, write_job: WriteJob) -> None:
    code, _, err = run_launch("plan", write_job(), "--pair")
    assert code == 2
    assert "torch_xla" in err


def summary_of(printed: str) -> dict[str, str]:
    """The rows above the settings, by name; those of several lines as one text."""
    rows: dict[str, str] = {}
    name = ""
    for line in printed.split("\nSettings")[0].splitlines():
        name = line[:11].strip() or name
        rows[name] = f"{rows.get(name, '')} {line[11:].strip()}".strip()
    return rows


def test_the_summary_says_what_runs_where_how_long_and_at_what_cost(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path, manifest: dict[str, Any]
) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(manifest))
    file = write_job(
        cluster="dev.json",
        inputs={"train": {"s3_uri": "s3://data/[a]", "mode": "FastFile"}, "corpus": {"lustre": "/corpus"}},
        checkpoint={},
        resources={"instance_type": "ml.g5.12xlarge", "instance_count": 2, "capacity": "spot"},
        limits={"max_runtime": "10h", "max_wait": "20h", "max_retries": 2},
    )
    code, out, err = run_launch("plan", file)
    assert code == 0, out + err
    rows = summary_of(out[out.index("\njob ") + 1 :])
    assert rows["hosts"] == "2 × ml.g5.12xlarge"
    assert rows["processes"] == "4 per host, world size 8, torchrun"
    assert rows["limits"] == "10h of running, 20h with the waiting for spot, 2 retries"
    assert rows["cost"].startswith("at most 14.18 USD an hour, up to 141.80 USD in 10h")
    assert "list price of us-west-2, 2026-09-06" in rows["cost"]
    assert "train: s3://data/[a] (FastFile, FullyReplicated)" in rows["channels"]
    assert "corpus: fs-0123456789abcdef0:/abcdefgh/corpus (ro)" in rows["channels"]
    assert "code: s3://dev-code/" in rows["channels"]
    assert rows["checkpoints"].startswith("s3://dev-checkpoints/")


def test_the_summary_says_what_the_service_does_besides(run_launch: RunLaunch, write_job: WriteJob) -> None:
    resources = {"instance_type": "ml.g5.12xlarge", "infra_check": True}
    code, out, err = run_launch("plan", write_job(resources=resources))
    assert code == 0, out + err
    rows = summary_of(out[out.index("\njob ") + 1 :])
    assert rows["service"] == "tests the hosts and their network before the script starts"
    assert "service" not in run_launch("plan", write_job())[1].split("\njob ")[1].split("\nSettings")[0]


def test_the_summary_says_who_else_is_on_the_ultra_servers(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    resources = {"instance_type": "ml.p6e-gb200.36xlarge", "instance_count": 2, "placement": {"share": True}}
    fields = {"image": "1.dkr.ecr.us-west-2.amazonaws.com/arm:1", "framework": None}
    network = {"isolation": True, "encryption": True}
    _, out, _ = run_launch("plan", write_job(resources=resources, network=network, **fields))
    rows = summary_of(out[out.index("\njob ") + 1 :])
    assert "places hosts on UltraServers that other jobs may share" in rows["service"]
    assert "isolates the containers" in rows["service"]
    assert "encrypts what the hosts send each other" in rows["service"]


def test_the_summary_names_all_types_from_which_the_service_chooses(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    types = {"instance_type": "ml.p5.48xlarge", "instance_types": ["ml.p5e.48xlarge"]}
    resources = {**types, "instance_choice": "service", "instance_count": 2}
    code, out, err = run_launch("plan", write_job(resources=resources))
    assert code == 0, out + err
    rows = summary_of(out[out.index("\njob ") + 1 :])
    which = "ml.p5.48xlarge or ml.p5e.48xlarge"
    assert rows["hosts"] == f"2 × {which}: the service takes the first that has capacity"


def test_the_summary_of_a_search_says_what_is_searched_and_how_many_jobs_it_makes(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    file = write_job(
        resources={"instance_type": "ml.g5.2xlarge"},
        limits={"max_runtime": "1h"},
        tuning={
            "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
            "ranges": {"lr": {"min": 0.001, "max": 0.1, "scaling": "logarithmic"}, "size": [16, 32]},
            "max_jobs": 20,
            "parallel": 4,
        },
    )
    code, out, err = run_launch("plan", file)
    assert code == 0, out + err
    rows = summary_of(out[out.index("\njob ") + 1 :])
    assert rows["tuning"] == "Bayesian, minimize loss"
    assert rows["ranges"] == "lr: 0.001 to 0.1, logarithmic size: 16, 32"
    assert rows["jobs"] == "20, 4 at a time"
    assert rows["cost"].startswith("6.06 USD an hour, up to 30.30 USD for 20 jobs of 1h, 4 at a time")
    assert "CreateHyperParameterTuningJob request" in out


def test_the_cost_is_no_part_of_the_json(run_launch: RunLaunch, write_job: WriteJob) -> None:
    _, out, _ = run_launch("plan", write_job(), "--output", "json")
    assert json.loads(out).keys() == {
        "job",
        "request",
        "version_choice",
        "findings",
        "source",
        "requirements",
    }


def plan_of_requirements(run_launch: RunLaunch, file: Path, text: str, *more: str) -> tuple[str, Any]:
    """The row of the summary, and the JSON, of a job with these requirements."""
    (file.parent / "src" / "requirements.txt").write_text(text)
    code, out, err = run_launch("plan", file, *more)
    assert code == 0, out + err
    _, as_json, _ = run_launch("plan", file, *more, "--output", "json")
    return summary_of(out[out.index("\njob ") + 1 :]).get("packages", ""), json.loads(as_json)


def test_what_will_be_installed_is_said_with_its_file_and_index(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    text = (
        "einops==0.8.0\n# later: more\ntransformers\n--extra-index-url https://me:s3cret@x.example/simple\n"
    )
    row, printed = plan_of_requirements(run_launch, write_job(), text)
    assert row == "2 of requirements.txt, from PyPI, https://***@x.example/simple"
    assert printed["requirements"] == {
        "file": "requirements.txt",
        "installed_by": "boot",
        "packages": ["einops==0.8.0", "transformers"],
        "index": "PyPI",
        "links": ["https://***@x.example/simple"],
    }
    arguments = printed["request"]["AlgorithmSpecification"]["ContainerArguments"]
    assert arguments[-2:] == ["--requirements", "requirements.txt"]


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({"CA_REPOSITORY_ARN": "arn:aws:codeartifact:us-west-2:1:repository/d/r"},
         "CodeArtifact, arn:aws:codeartifact:us-west-2:1:repository/d/r"),
        ({"PIP_INDEX_URL": "https://pypi.example.com/simple"}, "https://pypi.example.com/simple"),
    ],
)  # fmt: skip
def test_the_index_of_the_environment_is_the_one_that_counts(
    run_launch: RunLaunch, write_job: WriteJob, environment: dict[str, str], index: str
) -> None:
    _, printed = plan_of_requirements(run_launch, write_job(environment=environment), "einops\n")
    assert printed["requirements"]["index"] == index


def test_the_toolkit_of_the_image_is_named_where_it_installs(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    file = write_job(distribution={"strategy": "smddp"}, framework={"name": "pytorch", "version": "2.0.1"})
    row, printed = plan_of_requirements(run_launch, file, "einops\n")
    assert row == "1 of requirements.txt, from PyPI, by the toolkit of the image"
    assert printed["requirements"]["installed_by"] == "toolkit"


@pytest.mark.parametrize("requirements", ["none", None])
def test_nothing_is_installed_where_nothing_is_to_be(
    run_launch: RunLaunch, write_job: WriteJob, requirements: str | None
) -> None:
    file = write_job()
    if requirements is None:
        printed = json.loads(run_launch("plan", file, "--output", "json")[1])
    else:
        row, printed = plan_of_requirements(
            run_launch, file, "einops\n", "--set", f"code.requirements={requirements}"
        )
        assert row == ""
    assert printed["requirements"] is None
    assert "--requirements" not in printed["request"]["AlgorithmSpecification"]["ContainerArguments"]


def test_a_version_that_was_chosen_is_shown_with_its_reason(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    file = write_job(framework={"name": "tensorflow"}, distribution={"strategy": "none"})
    _, text, _ = run_launch("plan", file)
    assert "tensorflow 2.21.0 (newest patched that fits; patches until 2027-07-10)" in " ".join(text.split())
    _, out, _ = run_launch("plan", file, "--output", "json")
    assert json.loads(out)["version_choice"] == {
        "framework": "tensorflow",
        "version": "2.21.0",
        "reason": "newest patched that fits; patches until 2027-07-10",
    }
    assert json.loads(out)["job"]["framework"]["version"] == "2.21.0"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {},
            "on: a host that is not sound ends the job before the ranks start "
            "(several hosts wait for each other)",
        ),
        ({"gate": "warn"}, "warn: a host that is not sound is told, and the ranks start (yours)"),
        ({"gate": "off"}, "off: nobody looks at the hosts before the ranks start (yours)"),
    ],
)
def test_what_comes_of_unsound_hosts_is_shown_with_its_reason(
    run_launch: RunLaunch, write_job: WriteJob, fields: dict[str, str], said: str
) -> None:
    _, out, _ = run_launch("plan", write_job(**fields))
    assert summary_of(out[out.index("\njob ") + 1 :])["gate"] == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {},
            "stalled after 1m without a step, or 5 times the longest pause so far; 30m before the first one "
            "(one rank that does not come holds all others)",
        ),
        (
            {"watchdog": {"stall": "10m", "first_step": "1h"}},
            "stalled after 10m without a step; 1h before the first one (yours)",
        ),
        ({"watchdog": "off"}, "off: nobody looks whether the ranks make steps (yours)"),
    ],
)
def test_what_a_stall_is_is_shown_with_its_reason(
    run_launch: RunLaunch, write_job: WriteJob, fields: dict[str, Any], said: str
) -> None:
    _, out, _ = run_launch("plan", write_job(**fields))
    assert summary_of(out[out.index("\njob ") + 1 :])["watchdog"] == said


Shown = Callable[..., str]

FILE = """name: a_b
environment:
  # why
  TOKEN: planted-value

hyperparameters: {key: planted-value}
code:
  entry_point: train.py
"""


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)

    def show(line: int, column: int) -> str:
        place = Location(str(file), line, column)
        finding = job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend it.", location=place)
        show_findings(console(), [finding])
        return capsys.readouterr().out

    return show


def test_the_line_is_shown_with_a_caret_below_the_place(shown: Shown) -> None:
    lines = [line.rstrip() for line in shown(8, 3).splitlines()]
    text = next(line for line in lines if "entry_point: train.py" in line)
    caret = lines[lines.index(text) + 1]
    assert caret.index("^") == text.index("entry_point")


@pytest.mark.parametrize("line", [4, 6])
def test_a_line_that_may_hold_a_secret_is_not_shown(shown: Shown, line: int) -> None:
    printed = shown(line, 3)
    assert "planted-value" not in printed
    assert f":{line}:3" in printed


def test_credentials_of_an_address_are_hidden_in_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index https://me:planted@host/simple --bogus\n")
    place = Location(str(file), 1, file.read_text().index("--bogus") + 1)
    show_findings(
        console(), [job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend", location=place)]
    )
    text, caret = [line.rstrip() for line in capsys.readouterr().out.splitlines()][-3:-1]
    assert "planted" not in text
    assert caret.index("^") == text.index("--bogus")


def test_a_place_outside_of_the_file_has_no_excerpt(shown: Shown) -> None:
    assert "^" not in shown(99, 1)


def test_the_worst_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    order = [Severity.INFO, Severity.ERROR, Severity.WARNING]
    show_findings(
        console(),
        [job_file.INVALID_VALUE.finding(Stage.SPEC, severity.value, severity=severity) for severity in order],
    )
    printed = capsys.readouterr().out
    assert printed.index("error") < printed.index("warning") < printed.index("info")
