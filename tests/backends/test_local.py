"""Plans that run on this machine: what scripts find there, and what is refused."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local.backend import LocalBackend
from tests.backends.workplace import SHORT, Workplace, channel, finish, texts


def test_a_script_gets_what_sagemaker_gives_it(workplace: Workplace, local: LocalBackend) -> None:
    plan = workplace.plan(
        """
        import json, os, sys
        from pathlib import Path
        Path(os.environ["SM_MODEL_DIR"], "model").write_text("trained")
        names = ("SM_HOSTS", "SM_CURRENT_HOST", "SM_NETWORK_INTERFACE_NAME", "USERS_OWN", "DUMPS")
        print(json.dumps([sys.argv[1:], {name: os.environ.get(name) for name in names}, os.getcwd()]))
        """,
        hosts=2,
        arguments=("--flag", "two words"),
        environment={"USERS_OWN": "kept", "DUMPS": "/opt/ml/output/data/rank_"},
        HyperParameters={"lr": "0.10", "data": "/opt/ml/input/data/code"},
    )
    assert local.submit(plan) == "job-1"
    status = finish(local)
    assert (status.state, status.failure_reason) == (JobState.COMPLETED, None)
    root = workplace.home / "job-1" / "hosts" / "algo-2" / "ml"
    announced, printed = texts(local, "algo-2")
    assert announced.startswith("slipway: algo-2, host 2 of 2")
    arguments, environment, folder = json.loads(printed)
    assert arguments == ["--lr", "0.10", "--data", f"{root}/input/data/code", "--flag", "two words"]
    assert environment == {
        "SM_HOSTS": '["algo-1", "algo-2"]',
        "SM_CURRENT_HOST": "algo-2",
        "SM_NETWORK_INTERFACE_NAME": "lo0" if sys.platform == "darwin" else "lo",
        "USERS_OWN": "kept",
        "DUMPS": f"{root}/output/data/rank_",
    }
    assert folder == str(root / "code")
    assert (root / "model" / "model").read_text() == "trained"


def test_no_credentials_of_the_launcher_reach_the_job(
    workplace: Workplace, local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("UNRELATED", "1")
    local.submit(workplace.plan("import os; print(*sorted(os.environ))"))
    finish(local)
    names = texts(local)[-1].split()
    assert "PATH" in names
    assert not {"AWS_SECRET_ACCESS_KEY", "UNRELATED"} & set(names)


def test_what_may_hold_secrets_is_for_the_user_alone(workplace: Workplace, local: LocalBackend) -> None:
    local.submit(workplace.plan("pass", environment={"TOKEN": "secret"}))
    finish(local)
    with pytest.raises(BackendError, match=r"no local job|no name of a training job"):
        local.describe("")
    folder = workplace.home / "job-1"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("request.json", "status.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_a_job_resumes_from_the_checkpoints_of_another(workplace: Workplace, local: LocalBackend) -> None:
    script = """
        import os
        from pathlib import Path
        folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
        print("found", sorted(file.name for file in folder.iterdir()))
        (folder / f"epoch-{len(list(folder.iterdir()))}").touch()
    """
    local.submit(workplace.plan(script, name="first"))
    finish(local, "first")
    local.submit(workplace.plan(script, name="second", resume_from="first"))
    finish(local, "second")
    assert texts(local, name="second")[-1] == "found ['epoch-0']"
    assert [file.name for file in workplace.shared("", "first").iterdir()] == ["epoch-0"]


def test_a_job_that_left_no_checkpoint_is_not_resumed_at_step_0(
    workplace: Workplace, local: LocalBackend
) -> None:
    plan = workplace.plan("pass", name="first")
    local.submit(plan)
    finish(local, "first")
    workplace.shared("empty", "first").mkdir()
    with pytest.raises(BackendError, match=r"there is no checkpoint in .*first/checkpoints") as refused:
        local.submit(workplace.plan("pass", name="second", resume_from="first"))
    assert "start from the beginning" in refused.value.remedy
    with pytest.raises(BackendError, match="there is no checkpoint in"):
        local.resume("first", {**(plan.request or {}), "TrainingJobName": "third"})
    assert local.job_names() == ["first"]


def test_all_hosts_share_the_jobs_checkpoint_path(workplace: Workplace, local: LocalBackend) -> None:
    script = """
        import os
        from pathlib import Path
        Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"]).touch()
    """
    checkpoints = {"S3Uri": "s3://bucket/prefix", "LocalPath": "/opt/ml/saved"}
    local.submit(workplace.plan(script, hosts=2, CheckpointConfig=checkpoints))
    status = finish(local)
    assert status.checkpoints is not None
    assert sorted(file.name for file in Path(status.checkpoints).iterdir()) == ["algo-1", "algo-2"]
    assert (workplace.home / "job-1" / "hosts" / "algo-1" / "ml" / "saved" / "algo-2").exists()


def test_a_channel_is_a_folder_of_this_machine(workplace: Workplace) -> None:
    data = workplace.folder / "data"
    data.mkdir()
    (data / "part").write_text("1 2 3")
    script = "import os; print(open(os.environ['SM_CHANNEL_TRAIN'] + '/part').read())"
    channels = [channel("train", "s3://bucket/train"), channel("code", "s3://bucket/code")]
    with LocalBackend(workplace.home, {"train": data}, SHORT) as local:
        local.submit(workplace.plan(script, InputDataConfig=channels))
        finish(local)
        assert texts(local)[-1] == "1 2 3"


@pytest.mark.parametrize(
    ("inputs", "mode", "message"),
    [
        ({}, {}, r"train comes from s3://bucket/train.*--input train=DIR"),
        ({"train": "missing"}, {}, r"missing, given for the channel train, is not a folder"),
        ({"train": ".", "trian": "."}, {}, r"no channel 'trian'; it has train"),
        ({"train": "."}, {"InputMode": "Pipe"}, r"train is a Pipe"),
    ],
)
def test_channels_that_cannot_be_had_are_refused(
    workplace: Workplace, inputs: dict[str, str], mode: dict[str, str], message: str
) -> None:
    folders = {name: workplace.folder / folder for name, folder in inputs.items()}
    plan = workplace.plan("pass", InputDataConfig=[channel("train", "s3://bucket/train", **mode)])
    with pytest.raises(BackendError, match=message):
        LocalBackend(workplace.home, folders).submit(plan)
    assert not (workplace.home / "job-1").exists()


def test_what_cannot_run_here_is_refused(workplace: Workplace, local: LocalBackend) -> None:
    plan = workplace.plan("pass", AlgorithmSpecification={"TrainingInputMode": "File"})
    with pytest.raises(BackendError, match="training toolkit of AWS's images"):
        local.submit(plan)
    local.submit(workplace.plan("pass"))
    finish(local)
    with pytest.raises(BackendError, match="there is a local job job-1 already"):
        local.submit(workplace.plan("pass"))
    with pytest.raises(BackendError, match=r"no local job other to resume from; there are: job-1"):
        local.submit(workplace.plan("pass", name="job-2", resume_from="other"))


def run_with(workplace: Workplace, local: LocalBackend, script: str) -> Path:
    """The checkpoints of a run that is over, in which the script left things."""
    local.submit(workplace.plan(script, name="first"))
    assert finish(local, "first").state is JobState.COMPLETED
    return workplace.home / "first" / "checkpoints"


def test_a_run_whose_folder_of_checkpoints_is_gone_is_not_said_to_be_unknown(
    workplace: Workplace, local: LocalBackend
) -> None:
    run_with(workplace, local, "pass").rmdir()
    with pytest.raises(BackendError, match=r"there is no checkpoint in .*first/checkpoints"):
        local.submit(workplace.plan("pass", name="second", resume_from="first"))


def test_links_among_checkpoints_stay_links_when_a_run_goes_on(
    workplace: Workplace, local: LocalBackend
) -> None:
    script = """
        import os, pathlib
        folder = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
        (folder / "step-1").mkdir()
        (folder / "step-1" / "model.pt").write_text("weights")
        (folder / "latest").symlink_to("step-1")
        (folder / "best").symlink_to(folder / "step-1")
        (folder / "a").symlink_to(".")
        (folder / "b").symlink_to(".")
    """
    run_with(workplace, local, script)
    local.submit(workplace.plan("pass", name="second", resume_from="first"))
    assert finish(local, "second").state is JobState.COMPLETED
    copied = workplace.home / "second" / "checkpoints"
    targets = {name: str((copied / name).readlink()) for name in ("latest", "best", "a", "b")}
    assert targets == {"latest": "step-1", "best": "step-1", "a": ".", "b": "."}
    assert (copied / "best" / "model.pt").read_text() == "weights"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("os.symlink('/dev/zero', 'z.pt')", "z.pt is a link to '/dev/zero', which leads out of the folder"),
        ("os.symlink('gone', 'latest')", "latest is a link to 'gone', which leads nowhere"),
        ("os.symlink('loop', 'loop')", "loop is a link to 'loop', which leads nowhere"),
        ("os.mkfifo('fifo')", "fifo is a pipe, and no file"),
        ("socket.socket(socket.AF_UNIX).bind('s')", "s is a socket, and no file"),
    ],
)
def test_what_cannot_be_copied_among_checkpoints_is_named(
    workplace: Workplace, local: LocalBackend, made: str, told: str
) -> None:
    folder = run_with(
        workplace,
        local,
        "import os, pathlib; pathlib.Path(os.environ['SLIPWAY_CHECKPOINT_DIR'], 'model.pt').touch()",
    )
    subprocess.run([sys.executable, "-c", f"import os, socket; {made}"], cwd=folder, check=True)
    with pytest.raises(BackendError, match=re.escape(told)) as refused:
        local.submit(workplace.plan("pass", name="second", resume_from="first"))
    assert "Free some of the disk" not in refused.value.remedy
    assert not (workplace.home / "second").exists()
