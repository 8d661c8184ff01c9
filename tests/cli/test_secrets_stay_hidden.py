"""No secret of the job, of the session or of the script's making leaves the places where it belongs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.aws.clients import PATIENT, CallSettings, Clients
from launcher.cli.app import main
from launcher.failure_modes.model import Refusal
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount
from tests.emulator.faults import (
    DENIED,
    EXPIRED,
    RESET,
    THROTTLED,
    Fault,
    inject,
    no_backoff,
)
from tests.emulator.sagemaker import TrainingScript, emulated_training

Faulty = Callable[..., None]

ACCESS_KEY = "AKIAPLANTEDPLANTED12"
URL = "https://user:planted-in-url@example.com/data"
JOB: dict[str, Any] = {
    "environment": {"MY_SETTING": "planted-in-environment"},
    "hyperparameters": {"endpoint": "planted-in-hyperparameters"},
}
SCRIPT = f"""
print("signing in with api_key=planted-in-log and {ACCESS_KEY}", flush=True)
raise ConnectionError("could not open {URL} with token=planted-in-log")
"""
REASON = (
    f"AlgorithmError: CODE001 rank 0 on algo-1: ConnectionError: could not open {URL} with "
    "token=planted-in-log (train.py:3), exit code: 1"
)
ECHO = (
    "could not process {'Environment': {'MY_SETTING': 'planted-in-environment'}, 'HyperParameters': "
    "{'endpoint': 'planted-in-hyperparameters'}}; the canonical string was "
    "'POST\\nx-amz-security-token:planted-session-token\\n'"
)
WITH_TOKEN = Fault(
    "the session's token",
    400,
    "ValidationException",
    "The canonical string should have been 'POST\\nx-amz-security-token:planted-session-token\\n'",
)
FAULTS = (
    DENIED,
    EXPIRED,
    THROTTLED,
    RESET,
    Fault("500 with the request", 500, "InternalFailure", ECHO),
    Fault("400 with the request", 400, "ValidationException", ECHO),
    Fault("refused signature", 403, "InvalidSignatureException", ECHO),
)


@pytest.fixture
def account(
    cloud: EmulatedAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[TrainingScript]:
    """What the jobs of a session with a token do, without waiting after faults."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret-access-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "planted-session-token")
    monkeypatch.chdir(tmp_path)
    with emulated_training(TrainingScript()) as script, no_backoff():
        yield script


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """Let each client of the session meet a fault for good."""

    def add(operation: str, fault: Fault) -> None:
        make = Clients.__call__

        def client(self: Clients, service: str, region: str | None, settings: CallSettings = PATIENT) -> Any:
            made = make(self, service, region, settings)
            if service == "sagemaker" and settings == PATIENT:
                inject(made, operation, *[fault] * 20)
            return made

        monkeypatch.setattr(Clients, "__call__", client)

    return add


def assert_clean(*texts: str) -> None:
    for text in texts:
        for secret in ("planted", ACCESS_KEY):
            at = text.find(secret)
            assert at < 0, text[max(0, at - 200) : at + 100]


def cached() -> str:
    """All that the launcher keeps on this machine outside of local jobs."""
    folder = Path(os.environ["XDG_CACHE_HOME"])
    return "".join(file.read_text("utf-8") for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("output", ["text", "json"])
def test_findings_show_no_value_of_the_job(run_launch: RunLaunch, write_job: WriteJob, output: str) -> None:
    file = write_job(**JOB, code={"source_dir": "src", "entry_point": "no.py"})
    code, out, err = run_launch("check", file, "--output", output)
    assert code == 1
    assert_clean(out, err)


def test_a_comparison_with_an_earlier_request_shows_the_credentials_of_neither(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    code, out, _ = run_launch("plan", write_job(environment={"A": "2"}), "--output", "json")
    assert code == 0
    request = json.loads(out)["request"]
    request["Environment"] |= {"HF_TOKEN": "planted-before", "X": ACCESS_KEY}
    (tmp_path / "earlier.json").write_text(json.dumps({"request": request}))
    file = write_job(environment={"HF_TOKEN": "planted-token", "A": "1"})
    _, out, err = run_launch("plan", file, "--diff", tmp_path / "earlier.json")
    assert '"HF_TOKEN": "***"' in out
    assert_clean(out, err)


@pytest.mark.parametrize("command", [["plan"], ["--dry-run"]])
def test_a_plan_shows_the_values_in_the_job_and_the_request_and_nowhere_else(
    run_launch: RunLaunch, write_job: WriteJob, command: list[str]
) -> None:
    """The request that is printed is the one that is sent, whole; it is what was asked for."""
    file = write_job(**JOB)
    _, out, err = run_launch(*command, file, "--output", "json")
    printed = json.loads(out)
    assert printed["request"]["Environment"].pop("MY_SETTING") == "planted-in-environment"
    assert printed["request"]["HyperParameters"].pop("endpoint") == "planted-in-hyperparameters"
    assert (printed["job"].pop("environment"), printed["job"].pop("hyperparameters")) == tuple(JOB.values())
    assert_clean(json.dumps(printed), err)


@pytest.mark.few_cases("expired token", "400 with the request")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_launch_that_fails_on_aws_shows_and_keeps_no_secret(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript, faulty: Faulty, fault: Fault
) -> None:
    faulty("CreateTrainingJob", fault)
    code, out, err = run_launch(write_job(**JOB, cluster="dev"), "--yes")
    assert code in (2, 3)
    assert_clean(out, err, cached())


@pytest.mark.parametrize("fault", [DENIED, WITH_TOKEN], ids=lambda fault: fault.name)
def test_a_launch_that_cannot_be_followed_shows_none_either(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript, faulty: Faulty, fault: Fault
) -> None:
    faulty("DescribeTrainingJob", fault)
    code, out, err = run_launch(write_job(**JOB, cluster="dev"), "--yes")
    assert code == 3
    assert_clean(out, err, cached())


@pytest.mark.few_cases("expired token", "400 with the request", "the session's token")
@pytest.mark.parametrize("fault", [*FAULTS, WITH_TOKEN], ids=lambda fault: fault.name)
def test_neither_does_its_traceback(
    write_job: WriteJob,
    account: TrainingScript,
    faulty: Faulty,
    fault: Fault,
    capsys: pytest.CaptureFixture[str],
) -> None:
    faulty("CreateTrainingJob", fault)
    with pytest.raises(Refusal) as error:
        main([str(write_job(**JOB, cluster="dev")), "--yes", "--detach", "--debug"])
    printed = capsys.readouterr()
    assert_clean(printed.out, printed.err, "".join(traceback.format_exception(error.value)))


@pytest.fixture
def failed(run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript) -> tuple[str, str, str]:
    """The name of a job that failed with secrets in its logs and its reason; what its launch printed."""
    account.logs = {"algo-1": [*SCRIPT.strip().splitlines(), *traceback_of_script()]}
    account.failure_reason = REASON
    code, out, err = run_launch(write_job(**JOB, cluster="dev"), "--yes", "--output", "json")
    assert code == 1
    return account.requests[0]["TrainingJobName"], out, err


def traceback_of_script() -> list[str]:
    return [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/opt/ml/code/train.py", line 3, in <module>',
        f'[rank0]:     raise ConnectionError("{URL} token=planted-in-log {ACCESS_KEY}")',
        f"[rank0]: ConnectionError: could not open {URL} with token=planted-in-log {ACCESS_KEY}",
    ]


@pytest.mark.few_cases("diagnose-text")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("diagnose", "text"),
        ("diagnose", "json"),
        ("status", "text"),
        ("status", "json"),
        ("list", "text"),
        ("list", "json"),
    ],
)
def test_a_failed_job_is_told_of_without_the_secrets_in_its_logs_and_its_reason(
    run_launch: RunLaunch, failed: tuple[str, str, str], command: str, output: str
) -> None:
    arguments = [command] if command == "list" else [command, failed[0]]
    _, out, err = run_launch(*arguments, "--output", output)
    assert failed[0] in out or command == "diagnose"
    assert_clean(out, err)


def test_a_followed_launch_tells_its_failure_without_them(failed: tuple[str, str, str]) -> None:
    _, out, err = failed
    # stderr has the log's own lines, which are the user's.
    assert_clean(out, cached())
    assert "planted-session-token" not in err
    assert "planted-in-environment" not in err


def test_the_lines_of_a_log_are_the_users_and_shown_as_they_are(
    run_launch: RunLaunch, failed: tuple[str, str, str]
) -> None:
    _, out, _ = run_launch("logs", failed[0])
    assert ACCESS_KEY in out
    assert "planted-in-url" in out


def test_evidence_from_a_file_is_redacted(run_launch: RunLaunch, tmp_path: Path) -> None:
    log = tmp_path / "algo-1.log"
    log.write_text("\n".join(traceback_of_script()))
    code, out, err = run_launch("diagnose", "--log", log, "--output", "json")
    assert code == 1
    assert json.loads(out)["root_cause"]["evidence"]
    assert_clean(out, err)


def test_a_local_run_keeps_its_secrets_from_others_and_out_of_its_verdict(
    write_job: WriteJob, tmp_path: Path
) -> None:
    file = write_job(
        **JOB,
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        distribution={"strategy": "none"},
        checkpoint={},
    )
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-m", "launcher.cli.app", str(file), "--local", "--output", "json"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "AWS_SESSION_TOKEN": "planted-session",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 1, ran.stderr
    ended = json.loads(ran.stdout)
    assert ended["failure"]["code"] == "CODE001"
    assert_clean(json.dumps(ended["failure"]))
    assert "planted-session" not in ran.stdout + ran.stderr
    [home] = (tmp_path / ".slipway" / "local").iterdir()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for kept in home.rglob("*"):
        if kept.is_file() and not kept.is_symlink() and "planted-session" in kept.read_text(errors="replace"):
            raise AssertionError(kept)


IN_PIECES = """
import json, os, sys

value = os.environ["HF_TOKEN"]
print("logging in with", value, repr(value), json.dumps({"token": value}), flush=True)
for letter in value:
    sys.stdout.write(letter)
    sys.stdout.flush()
print()
print(f"still {value}", file=sys.stderr)
raise ConnectionError(f"401 for {value}")
"""


@pytest.mark.few_cases("text")
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_secret_is_nowhere_after_a_local_run_that_prints_it_in_every_way(
    run_launch: RunLaunch,
    write_job: WriteJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", 'hf-planted/"secret"-1234')
    monkeypatch.delenv("CI", raising=False)
    file = write_job(
        secrets={"HF_TOKEN": "team/hf"},
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        distribution={"strategy": "none"},
    )
    (tmp_path / "src" / "train.py").write_text(IN_PIECES)
    form = ("--output", output)
    printed = [*run_launch("plan", file, *form), *run_launch(file, "--local", *form)]
    assert (printed[0], printed[3]) == (0, 1)
    [name] = [each.name for each in (tmp_path / ".slipway" / "local").iterdir() if each.is_dir()]
    for command in ("status", "diagnose", "logs"):
        printed += run_launch(command, name, *form)
    assert "401 for ***" in str(printed)
    kept = [each.read_text(errors="replace") for each in tmp_path.rglob("*") if each.is_file()]
    assert "logging in with *** " in "".join(kept)
    assert_clean(*(each for each in printed if isinstance(each, str)), *kept, cached())


def test_a_credential_in_the_environment_is_a_warning_of_a_local_run(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_job(
        environment={"HF_TOKEN": "planted-token"},
        code={"source_dir": "src", "entry_point": "train.py", "arguments": ["--token=planted-5678"]},
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        distribution={"strategy": "none"},
    )
    code, out, err = run_launch(file, "--local")
    assert code == 0
    assert out.count("SPEC005") == 2
    assert_clean(out, err)
    code, out, err = run_launch(file, "--local", "--output", "json")
    assert (code, json.loads(out)["job"]["code"]["arguments"]) == (0, ["--token=***"])
    assert_clean(out, err)


def test_a_request_names_a_secret_and_neither_it_nor_the_journal_has_the_value(
    run_launch: RunLaunch,
    write_job: WriteJob,
    account: TrainingScript,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The launcher takes none of its own variables for it, and asks nobody for the value."""
    caplog.set_level("DEBUG", logger="launcher")
    monkeypatch.setenv("HF_TOKEN", "planted-in-environment")
    file = write_job(secrets={"HF_TOKEN": "team/hf"}, cluster="dev", distribution={"strategy": "torchrun"})
    printed = [*run_launch("plan", file), *run_launch(file, "--yes", "--output", "json")]
    (request,) = account.requests
    assert json.loads(request["Environment"]["SLIPWAY_SECRETS"]) == {"HF_TOKEN": "team/hf"}
    assert "HF_TOKEN" not in request["Environment"]
    _, checked, _ = run_launch("check", file, "--live")
    assert "team/hf is not among the secrets of the cluster dev (none)" in " ".join(checked.split())
    assert "could not verify that the role" in checked
    printed.append(checked)
    assert_clean(*(each for each in printed if isinstance(each, str)), json.dumps(request), cached())
    assert_clean(caplog.text)
