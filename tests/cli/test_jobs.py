"""`launch list`, `status`, `logs`, `stop`, `resume` and `clean` as their users call them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from launcher.aws.clients import Clients
from launcher.backends.interface import Backend, JobState, JobSummary, Polling
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.records import JobRecord
from launcher.backends.slurm.login_node import LoginNode
from launcher.backends.slurm.records import SlurmRecord
from launcher.backends.slurm.shared_folder import MirroredFolder
from launcher.cli import interaction
from launcher.cli.interaction import OutputFormat
from launcher.cli.jobs import watch_jobs
from launcher.failure_modes.model import AwsRefusal
from launcher.session.find_jobs import sagemaker_backend
from launcher.session.runs.follow_job import Interrupted
from tests.cli.conftest import RunLaunch
from tests.emulator.account import use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"
NAME = "digits-0123456789abcdefg"
REQUEST: dict[str, Any] = {
    "TrainingJobName": NAME,
    "AlgorithmSpecification": {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=(\\S+)"}],
        "ContainerArguments": ["--strategy", "torchrun", "--processes-per-host", "8"],
    },
    "RoleArn": "arn:aws:iam::111122223333:role/training",
    "OutputDataConfig": {"S3OutputPath": "s3://dev-output/"},
    "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "CheckpointConfig": {"S3Uri": f"s3://dev-checkpoints/{NAME}", "LocalPath": "/opt/ml/checkpoints"},
    "Environment": {"NCCL_DEBUG": "WARN"},
    "Tags": [{"Key": "team", "Value": "vision"}],
}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TrainingScript]:
    """Emulated AWS with a job of two hosts, a folder without local jobs, and no waiting."""
    use_test_keys(monkeypatch, REGION)
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    monkeypatch.chdir(tmp_path)
    with mock_aws(), emulated_training(TrainingScript()) as script:
        script.logs = {
            "algo-1": ["[rank0]: step=1 loss=0.5", "[rank1]: ready"],
            "algo-2": ["[rank8]: ready", "[rank13]: ready"],
        }
        create()
        yield script


def create(**changes: Any) -> None:
    boto3.client("sagemaker", region_name=REGION).create_training_job(**{**REQUEST, **changes})


def test_status_tells_phase_and_transitions(run_launch: RunLaunch, account: TrainingScript) -> None:
    run_launch("status", NAME)
    code, out, _ = run_launch("status", NAME, "--output", "json")
    shown = json.loads(out)
    assert code == 0
    assert (shown["name"], shown["state"], shown["hosts"]) == (NAME, "InProgress", 2)
    assert [each["phase"] for each in shown["phases"]] == ["Starting", "Downloading"]


def test_status_of_a_running_job_says_how_to_get_a_shell(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    run_launch("status", NAME)
    shown = json.loads(run_launch("status", NAME, "--output", "json")[1])
    session = f"aws ssm start-session --region {REGION} --target sagemaker-training-job:{NAME}_algo-1"
    assert shown["shell"][-1] == session
    create(TrainingJobName="other")
    run_launch("status", "other")
    text = run_launch("status", "other")[1]
    assert "a shell in algo-1, the first of 2 hosts:" in text
    assert "--remote-debug-config EnableRemoteDebug=true" in text


def test_status_of_a_running_job_shows_what_its_watchdog_warns_of(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    account.logs["algo-2"] += [
        "slipway: warning: NCCL004 rank 9 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in "
        "which ranks 0-8, 10-15 wait; it is at train.py:33, process state S"
    ]
    for _ in range(3):
        code, out, _ = run_launch("status", NAME, "--output", "json")
    shown = json.loads(out)
    assert (code, shown["state"], shown["verdict"]) == (0, "InProgress", None)
    assert [each["code"] for each in shown["warnings"]] == ["NCCL004"]
    assert "warning NCCL004 rank 9 on algo-2 has not entered" in run_launch("status", NAME)[1]


def test_status_of_a_failed_job_exits_with_1_and_says_why(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    account.failure_reason = "AlgorithmError: CODE001 rank 3 on algo-2: ValueError: x, exit code: 1"
    create(TrainingJobName="other")
    ended = [run_launch("status", "other") for _ in range(5)][-1]
    assert ended[0] == 1
    assert "CODE001" in ended[1]


def test_followed_logs_show_every_host_and_the_end(run_launch: RunLaunch, account: TrainingScript) -> None:
    code, out, _ = run_launch("logs", NAME, "--follow")
    assert code == 0
    assert "algo-1 [rank0]: step=1 loss=0.5" in out
    assert "algo-2 [rank13]: ready" in out
    assert "Completed" in out


@pytest.mark.parametrize("options", [[], ["--output", "json"]])
def test_a_half_surrogate_in_a_line_is_an_escape_and_no_end(
    run_launch: RunLaunch, account: TrainingScript, options: list[str]
) -> None:
    account.logs = {"algo-1": ["half \ud83d surrogate", "the line after it"]}
    code, out, _ = run_launch("logs", NAME, "--follow", *options)
    assert code == 0
    assert r"half \ud83d surrogate" in out
    assert "the line after it" in out


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--rank", "13"], ["[rank13]: ready"]),
        (["--host", "2"], ["[rank8]: ready", "[rank13]: ready"]),
        (["--grep", "loss="], ["[rank0]: step=1 loss=0.5"]),
        (["--since", "1h", "--host", "algo-1", "--grep", "ready"], ["[rank1]: ready"]),
        (["--since", "2099-01-01T00:00"], []),
    ],
)
def test_logs_are_filtered_and_printed_as_json_lines(
    run_launch: RunLaunch, account: TrainingScript, options: list[str], texts: list[str]
) -> None:
    code, out, _ = run_launch("logs", NAME, "--follow", "--output", "json", *options)
    assert code == 0
    assert [json.loads(line)["text"] for line in out.splitlines()] == texts


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--rank", "16"], "0 to 15"),
        (["--host", "algo-3"], "algo-1 to algo-2"),
        (["--grep", "("], "regular expression"),
        (["--since", "soon"], "soon"),
    ],
)
def test_a_filter_that_can_match_nothing_is_refused(
    run_launch: RunLaunch, account: TrainingScript, options: list[str], says: str
) -> None:
    code, _, err = run_launch("logs", NAME, *options)
    assert code == 2
    assert says in err


def test_a_mistyped_name_is_answered_with_the_nearest(run_launch: RunLaunch, account: TrainingScript) -> None:
    code, _, err = run_launch("logs", NAME[:-1] + "x")
    assert code == 2
    assert f"Did you mean {NAME}?" in err


def test_stop_asks_the_job_to_stop_and_leaves_one_that_has_ended(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    assert run_launch("stop", NAME)[0] == 0
    assert run_launch("logs", NAME, "--follow")[0] == 1
    code, out, _ = run_launch("stop", NAME, "--output", "json")
    assert code == 0
    assert json.loads(out) == {"name": NAME, "state": "Stopped", "asked_to_stop": False}


def test_list_reads_a_thousand_jobs_newest_first(run_launch: RunLaunch, account: TrainingScript) -> None:
    long_ago = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    for number in range(1000):
        account.add_ended(f"job-{number:04d}", "Completed", long_ago + timedelta(minutes=number))
    _, out, _ = run_launch("list", "--limit", "0", "--output", "json")
    names = [job["name"] for job in json.loads(out)["jobs"]]
    assert names == [NAME, *(f"job-{number:04d}" for number in reversed(range(1000)))]


def test_list_filters_by_name_state_and_time(run_launch: RunLaunch, account: TrainingScript) -> None:
    account.add_ended("old", "Failed", datetime(2020, 1, 1))
    account.add_ended("older", "Completed", datetime(2019, 1, 1))

    def listed(*options: str) -> list[str]:
        return [
            job["name"] for job in json.loads(run_launch("list", *options, "--output", "json")[1])["jobs"]
        ]

    assert listed("--name", "old") == ["old", "older"]
    assert listed("--status", "failed") == ["old"]
    assert listed("--since", "7d") == [NAME]
    assert listed("--limit", "2") == [NAME, "old"]
    assert "NAME" in run_launch("list")[1]


def test_the_goodput_says_what_the_billed_time_of_jobs_went_to(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    account.logs = {"algo-1": [f"step={step} loss=0.5" for step in range(1, 40)]}
    run_launch("logs", NAME, "--follow")
    code, out, err = run_launch("list", "--goodput")
    assert code == 0, err
    assert "host hours was useful work" in out
    assert "1 of 1 jobs had hosts and have ended" in err
    found = json.loads(run_launch("list", "--goodput", "--output", "json")[1])
    assert found["jobs"] == 1
    assert found["host_seconds"] > 0
    assert list(found["by"]["team"]) == ["vision"]
    assert list(found["by"]["type"]) == ["ml.p4d.24xlarge"]
    assert "alone" not in err
    assert "of the newest 1 alone; --limit 0 takes all" in run_launch("list", "--goodput", "--limit", "1")[2]


@pytest.mark.parametrize("option", ["--local", "--watch"])
def test_the_goodput_is_of_what_is_billed(
    run_launch: RunLaunch, account: TrainingScript, option: str
) -> None:
    code, _, err = run_launch("list", "--goodput", option)
    assert code == 2
    assert "--goodput is of what SageMaker bills" in err


def test_a_watched_list_is_drawn_anew_until_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    looks = iter(["first", "", "second"])

    def look(tell: Callable[[str], None]) -> list[JobSummary]:
        name, created = next(looks), datetime(2026, 8, 20, tzinfo=UTC)
        if not name:
            raise AwsRefusal("AWS is gone.", "Wait.")
        return [JobSummary(name, JobState.COMPLETED, "Completed", created, created)]

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    assert watch_jobs(look, OutputFormat.TEXT, pause) == 0
    out = capsys.readouterr().out
    assert out.index("first") < out.index("as it was; now AWS is gone. Wait.") < out.index("second")


def test_a_list_is_watched_on_a_terminal_alone(run_launch: RunLaunch, account: TrainingScript) -> None:
    code, out, err = run_launch("list", "--watch")
    assert (code, out, "--watch draws on a terminal" in err) == (2, "", True)


def test_an_unknown_state_names_those_there_are(run_launch: RunLaunch, account: TrainingScript) -> None:
    code, _, err = run_launch("list", "--status", "done")
    assert code == 2
    assert "Completed" in err


@pytest.fixture
def buckets(account: TrainingScript) -> Any:
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket="dev-checkpoints", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="dev-checkpoints", Key=f"{NAME}/checkpoint-1.pt", Body=b"weights")
    return s3


def test_resume_makes_a_new_job_from_the_same_request_and_the_newest_checkpoint(
    run_launch: RunLaunch, account: TrainingScript, buckets: Any
) -> None:
    run_launch("logs", NAME, "--follow")
    code, out, err = run_launch("resume", NAME, "--detach", "--output", "json")
    assert code == 0, err
    new, earlier = account.requests[-1], account.requests[0]
    name = json.loads(out)["name"]
    assert name == new["TrainingJobName"] != NAME
    assert name.startswith("digits-")
    assert new["CheckpointConfig"]["S3Uri"] == f"s3://dev-checkpoints/{name}"
    tokens = [request["Environment"].pop("SLIPWAY_HOST_TOKEN", None) for request in (new, earlier)]
    assert tokens[0] != tokens[1] or tokens == [None, None]
    for key in ("AlgorithmSpecification", "ResourceConfig", "Environment", "StoppingCondition", "RoleArn"):
        assert new[key] == earlier[key]
    assert {"Key": "slipway:resumed-from", "Value": NAME} in new["Tags"]
    assert {"Key": "team", "Value": "vision"} in new["Tags"]
    copied = buckets.get_object(Bucket="dev-checkpoints", Key=f"{name}/checkpoint-1.pt")
    assert copied["Body"].read() == b"weights"


def test_a_job_that_was_looked_at_is_described_once_more_for_its_request(account: TrainingScript) -> None:
    clients = Clients()
    backend, asked = sagemaker_backend(clients, REGION), list[str]()
    backend.describe(NAME)
    clients("sagemaker", REGION).meta.events.register(
        "before-call.sagemaker.DescribeTrainingJob", lambda model, **_: asked.append(model.name)
    )
    request = backend.request_of(NAME)
    assert {key: request[key] for key in ("TrainingJobName", "RoleArn", "Tags")} == {
        key: REQUEST[key] for key in ("TrainingJobName", "RoleArn", "Tags")
    }
    assert len(asked) == 1


def test_a_running_job_is_not_resumed(run_launch: RunLaunch, account: TrainingScript, buckets: Any) -> None:
    code, _, err = run_launch("resume", NAME)
    assert code == 2
    assert f"launch stop {NAME}" in err


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal with somebody at it; what is put in is answered, what was asked comes at the end."""
    answers: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("rich.console.Console.input", lambda self, prompt, **_: answers.pop(0))
    return answers


class Left(Interrupted):
    def __init__(self) -> None:
        super().__init__(NAME, None, f"Come back with: launch logs {NAME} --follow")


def press_again(seconds: float) -> None:
    raise KeyboardInterrupt


def stopped(account: TrainingScript) -> bool:
    backend = sagemaker_backend(Clients(), REGION)
    return [backend.describe(NAME).state.value for _ in range(6)][-1] == "Stopped"


def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(
    account: TrainingScript, capsys: pytest.CaptureFixture[str], terminal: list[str]
) -> None:
    interaction.leave(sagemaker_backend(Clients(), REGION), Left(), pause=lambda seconds: None)
    assert f"launch logs {NAME} --follow" in capsys.readouterr().err
    assert not stopped(account)


@pytest.mark.parametrize(("answer", "stops"), [("y", True), ("", False)])
def test_a_second_ctrl_c_asks_whether_to_stop_it(
    account: TrainingScript, terminal: list[str], answer: str, stops: bool
) -> None:
    terminal.append(answer)
    interaction.leave(sagemaker_backend(Clients(), REGION), Left(), pause=press_again)
    assert terminal == []
    assert stopped(account) is stops


def test_the_second_ctrl_c_asks_nothing_without_a_terminal(account: TrainingScript) -> None:
    interaction.leave(sagemaker_backend(Clients(), REGION), Left(), pause=press_again)
    assert not stopped(account)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three ended runs of a project, the first the oldest, seen from a folder of it."""
    home = tmp_path / ".slipway" / "local"
    for number in range(3):
        folder = home / f"run-{number}"
        folder.mkdir(parents=True)
        times = {"started": 1_800_000_000.0 + number, "ended": 1_800_000_010.0}
        JobRecord(folder, ProcessId(2**22 - 1, 1.0), 1, JobState.COMPLETED, "Completed", **times).write()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    return home


def left(home: Path) -> list[str]:
    return sorted(each.name for each in home.iterdir())


def test_nothing_goes_while_there_are_few(home: Path, run_launch: RunLaunch) -> None:
    code, out, err = run_launch("clean")
    assert (code, out) == (0, "")
    assert err == f"nothing to delete in {home}; 3 ended runs stay.\n"


def test_old_runs_go_after_they_were_shown(home: Path, run_launch: RunLaunch) -> None:
    code, out, _ = run_launch("clean", "--keep", "1", "--yes")
    assert code == 0
    assert out.index("run-1") < out.index("run-0")
    assert "run-2" not in out
    assert "deleted 2, " in out
    assert left(home) == ["run-2"]


def test_without_anybody_to_ask_nothing_goes(home: Path, run_launch: RunLaunch) -> None:
    code, out, err = run_launch("clean", "--all")
    assert (code, "Add --yes" in err) == (2, True)
    assert "run-0" in out
    assert len(left(home)) == 3


@pytest.mark.parametrize(("answer", "stay"), [(True, 1), (False, 3)])
def test_the_answer_decides(
    home: Path, run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, answer: bool, stay: int
) -> None:
    asked = []
    monkeypatch.setattr("launcher.cli.jobs.is_asking_possible", lambda yes, output: not yes)
    monkeypatch.setattr("launcher.cli.jobs.confirm", lambda question: (asked.append(question), answer)[1])
    code, _, err = run_launch("clean", "--keep", "1")
    assert code == 0
    assert asked[0].startswith("Delete 2 runs, ")
    assert asked[0].endswith("B? 1 ended run stays.")
    assert ("nothing was deleted" in err) is not answer
    assert len(left(home)) == stay


def test_mirrors_of_runs_behind_a_login_node_go_as_well(
    home: Path, run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs = MirroredFolder(Path("/fsx/alice/slipway"), LoginNode("login")).runs
    for name, state in (("ended", JobState.COMPLETED), ("runs-on", JobState.IN_PROGRESS)):
        (runs.home / name).mkdir(parents=True)
        SlurmRecord(runs.home / name, 1, {}, ProcessId(1, 1.0), submitted=1.7e9, state=state).write()
    code, out, _ = run_launch("clean", "--all")
    assert (code, "Completed, mirror" in out) == (2, True)
    code, out, _ = run_launch("clean", "--all", "--yes", "--output", "json")
    assert code == 0
    assert [each["name"] for each in json.loads(out)["deleted"] if each["kind"] == "mirror"] == ["ended"]
    assert left(runs.home) == ["runs-on"]


def test_json_says_what_went(home: Path, run_launch: RunLaunch) -> None:
    size = (home / "run-0" / "status.json").stat().st_size
    code, out, _ = run_launch("clean", "--keep", "2", "--yes", "--output", "json")
    printed = json.loads(out)
    created = printed["deleted"][0].pop("created")
    assert created.startswith("2027-01-1")
    assert (code, printed) == (
        0,
        {
            "deleted": [{"name": "run-0", "kind": "run", "state": "Completed", "bytes": size}],
            "failed": [],
            "kept": 2,
            "running": [],
        },
    )


def test_what_cannot_be_deleted_is_said(
    home: Path, run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refuse)
    code, _, err = run_launch("clean", "--keep", "2", "--yes", "--output", "json")
    assert code == 1
    assert f"not deleted: {home}/run-0: Permission denied" in err


def test_a_negative_number_is_refused(home: Path, run_launch: RunLaunch) -> None:
    code, _, err = run_launch("clean", "--keep", "-1")
    assert (code, "--keep -1 is not a number of runs" in err) == (2, True)
