"""Plans that run on this machine, from submission to the last process."""

from __future__ import annotations

import json
import pickle
import socket
import stat
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.backends.interface import BackendError, JobState, JobStatus, LogLine
from launcher.backends.local import LocalBackend
from launcher.backends.local_job import Grace
from launcher.plan.training_plan import SourcePackage, TrainingPlan

MARK = "TEST_MARK"
PATIENCE_SECONDS = 90.0
SHORT = Grace(stop=3.0, peers=1.0, report=3.0)


def eventually(condition: Callable[[], Any]) -> Any:
    """The condition's first true value; fails when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("waited in vain")


class Workplace:
    """A folder with a script, and the plans, jobs and processes that come of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.mark = uuid.uuid4().hex

    def plan(
        self,
        script: str,
        *,
        name: str = "job-1",
        hosts: int = 1,
        strategy: str = "none",
        processes: int = 1,
        environment: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        resume_from: str | None = None,
        **request: Any,
    ) -> TrainingPlan:
        source = self.folder / "src"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text(textwrap.dedent(script))
        words = ["--strategy", strategy, "--processes-per-host", str(processes), "--entry-point", "train.py"]
        return TrainingPlan(
            job={
                "distribution": {"strategy": strategy, "processes_per_host": processes},
                "checkpoint": {"resume_from": resume_from} if resume_from else {},
            },
            request={
                "TrainingJobName": name,
                "AlgorithmSpecification": {
                    "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/slipway.pyz"],
                    "ContainerArguments": [*words, *(["--", *arguments] if arguments else [])],
                },
                "InputDataConfig": [channel("code", "s3://bucket/code")],
                "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": hosts},
                "Environment": {MARK: self.mark, **(environment or {})},
                **request,
            },
            package=SourcePackage(source, "train.py", "s3://bucket/code"),
            findings=(),
            region="us-east-1",
        )

    def processes(self) -> list[psutil.Process]:
        """All living processes that inherited this test's mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def shared(self, name: str, job: str = "job-1") -> Path:
        """A file in the job's checkpoint folder, through which scripts and tests talk."""
        return self.home / job / "checkpoints" / name


def channel(name: str, uri: str, **more: Any) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}, **more}


def finish(backend: LocalBackend, name: str = "job-1") -> JobStatus:
    """The job's final status."""

    def final() -> JobStatus | None:
        status = backend.describe(name)
        return status if status.state.is_final else None

    return eventually(final)


def all_lines(backend: LocalBackend, name: str = "job-1") -> list[LogLine]:
    lines: list[LogLine] = []
    cursor: dict[str, str] = {}
    while (batch := backend.read_logs(name, cursor)).lines:
        lines += batch.lines
        cursor = dict(batch.cursor)
    return lines


def texts(backend: LocalBackend, host: str = "algo-1", name: str = "job-1") -> list[str]:
    return [line.text for line in all_lines(backend, name) if line.host == host]


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    left = place.processes()
    for process in left:
        process.kill()
    assert left == [], "processes were left behind"


@pytest.fixture
def backend(workplace: Workplace) -> Iterator[LocalBackend]:
    with LocalBackend(workplace.home, grace=SHORT) as backend:
        yield backend


WAIT = """
    import os, signal, sys, time
    from pathlib import Path

    shared = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])

    def wait_for(name):
        while not (shared / name).exists():
            time.sleep(0.02)

"""


def test_a_script_gets_what_sagemaker_gives_it(workplace: Workplace, backend: LocalBackend) -> None:
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
    assert backend.submit(plan) == "job-1"
    status = finish(backend)
    assert (status.state, status.failure_reason) == (JobState.COMPLETED, None)
    root = workplace.home / "job-1" / "hosts" / "algo-2" / "ml"
    announced, printed = texts(backend, "algo-2")
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
    workplace: Workplace, backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("UNRELATED", "1")
    backend.submit(workplace.plan("import os; print(*sorted(os.environ))"))
    finish(backend)
    names = texts(backend)[-1].split()
    assert "PATH" in names
    assert not {"AWS_SECRET_ACCESS_KEY", "UNRELATED"} & set(names)


def test_what_may_hold_secrets_is_for_the_user_alone(workplace: Workplace, backend: LocalBackend) -> None:
    backend.submit(workplace.plan("pass", environment={"TOKEN": "secret"}))
    finish(backend)
    folder = workplace.home / "job-1"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("request.json", "status.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_an_exception_names_the_rank_the_host_and_the_line(
    workplace: Workplace, backend: LocalBackend
) -> None:
    # The other host waits for ever, as one does at a collective: it has to be ended.
    script = """
        import os, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            raise ValueError("bad learning rate")
        time.sleep(600)
    """
    backend.submit(workplace.plan(script, hosts=2))
    status = finish(backend)
    assert status.state is JobState.FAILED
    assert status.failure_reason is not None
    assert status.failure_reason.splitlines()[0] == (
        "AlgorithmError: CODE001 rank 1 on algo-2: ValueError: bad learning rate (train.py:4)"
    )
    assert status.failure_reason.endswith("ValueError: bad learning rate, exit code: 1")
    assert workplace.processes() == []


def test_a_host_that_only_lost_its_peer_is_not_the_cause(workplace: Workplace, backend: LocalBackend) -> None:
    script = f"""{WAIT}
    if os.environ["SM_CURRENT_HOST"] == "algo-1":
        (shared / "gone").touch()
        raise RuntimeError("[gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:8")
    wait_for("gone")
    time.sleep(0.5)
    raise KeyError("label")
    """
    backend.submit(workplace.plan(script, hosts=2))
    reason = finish(backend).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: CODE001 rank 1 on algo-2: KeyError: 'label'")


def test_a_failure_is_not_lost_though_its_host_comes_down_last(
    workplace: Workplace, backend: LocalBackend
) -> None:
    """Rank 1 raises, its sibling ignores SIGTERM, so torchrun is still busy when the job is ended."""
    script = f"""{WAIT}
    rank = int(os.environ["RANK"])
    if rank == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (shared / "deaf").touch()
        time.sleep(600)
    if rank == 1:
        wait_for("deaf")
        (shared / "raised").touch()
        raise ValueError("the cause")
    wait_for("raised")
    raise RuntimeError("[gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:8")
    """
    backend.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    reason = finish(backend).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: CODE001 rank 1 on algo-1: ValueError: the cause")


def test_a_killed_rank_is_named_and_nothing_is_left(workplace: Workplace, backend: LocalBackend) -> None:
    script = """
        import os, signal, time
        if os.environ["RANK"] == "3":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    """
    backend.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    status = finish(backend)
    assert status.failure_reason == (
        "AlgorithmError: MEM002 rank 3 on algo-2: killed by SIGKILL (exit -9): the usual reason is host "
        "memory, exit code: 137"
    )
    assert workplace.processes() == []


def test_lines_of_torchrun_carry_the_global_rank(workplace: Workplace, backend: LocalBackend) -> None:
    script = "import os; print('hello from', os.environ['RANK'])"
    backend.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    assert finish(backend).state is JobState.COMPLETED
    printed = [line.text for line in all_lines(backend) if "hello" in line.text]
    assert sorted(printed) == [f"[rank{rank}]:hello from {rank}" for rank in range(4)]


def test_a_stop_lets_the_script_save_its_work(workplace: Workplace, backend: LocalBackend) -> None:
    script = f"""{WAIT}
    def save(number, frame):
        (shared / "saved").write_text("epoch 3")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    (shared / "running").touch()
    time.sleep(600)
    """
    backend.submit(workplace.plan(script))
    eventually(workplace.shared("running").exists)
    assert backend.describe("job-1").state is JobState.IN_PROGRESS
    backend.stop("job-1")
    assert finish(backend).state is JobState.STOPPED
    assert workplace.shared("saved").read_text() == "epoch 3"
    assert workplace.processes() == []


def test_torchruns_workers_are_asked_themselves_and_end_well(
    workplace: Workplace, backend: LocalBackend
) -> None:
    script = f"""{WAIT}
    rank = os.environ["RANK"]

    def save(number, frame):
        (shared / f"saved-{{rank}}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    (shared / f"running-{{rank}}").touch()
    time.sleep(600)
    """
    backend.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    eventually(lambda: all(workplace.shared(f"running-{rank}").exists() for rank in range(4)))
    backend.stop("job-1")
    assert finish(backend).state is JobState.STOPPED
    assert all(workplace.shared(f"saved-{rank}").exists() for rank in range(4))
    assert not any("Traceback" in line.text for line in all_lines(backend))
    assert workplace.processes() == []


def test_a_script_that_ignores_the_stop_is_killed_after_the_grace(
    workplace: Workplace, backend: LocalBackend
) -> None:
    script = f"""{WAIT}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (shared / "running").touch()
    time.sleep(600)
    """
    backend.submit(workplace.plan(script))
    eventually(workplace.shared("running").exists)
    backend.stop("job-1")
    status = finish(backend)
    assert (status.state, status.failure_reason) == (JobState.STOPPED, None)
    assert workplace.processes() == []


def test_another_launcher_may_stop_the_job(workplace: Workplace, backend: LocalBackend) -> None:
    backend.submit(workplace.plan("import time; time.sleep(600)"))
    LocalBackend(workplace.home).stop("job-1")
    assert finish(backend).state is JobState.STOPPED


def test_closing_the_backend_ends_its_jobs(workplace: Workplace) -> None:
    with LocalBackend(workplace.home, grace=SHORT) as backend:
        backend.submit(workplace.plan("import time; time.sleep(600)", hosts=2))
        eventually(workplace.processes)
    assert workplace.processes() == []
    assert backend.describe("job-1").state is JobState.STOPPED


def test_the_limit_on_the_run_time_holds(workplace: Workplace, backend: LocalBackend) -> None:
    plan = workplace.plan("import time; time.sleep(600)", StoppingCondition={"MaxRuntimeInSeconds": 1})
    backend.submit(plan)
    status = finish(backend)
    assert (status.state, status.phase) == (JobState.STOPPED, "MaxRuntimeExceeded")


DAEMON = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
"""


def test_what_a_script_leaves_in_the_background_is_ended(workplace: Workplace, backend: LocalBackend) -> None:
    backend.submit(workplace.plan(DAEMON))
    assert finish(backend).state is JobState.COMPLETED
    assert workplace.processes() == []


def test_a_killed_boot_leaves_nothing_behind(workplace: Workplace, backend: LocalBackend) -> None:
    script = f"""{WAIT}
    (shared / "running").touch()
    time.sleep(600)
    """
    backend.submit(workplace.plan(script, hosts=2, strategy="torchrun"))
    eventually(workplace.shared("running").exists)
    boots = [process for process in workplace.processes() if "--entry-point" in process.cmdline()]
    next(boot for boot in boots if "algo-2" in boot.environ()["SLIPWAY_ROOT"]).kill()
    status = finish(backend)
    assert status.failure_reason is not None
    assert status.failure_reason.startswith("AlgorithmError: MEM002 algo-2: the boot was killed by SIGKILL")
    assert workplace.processes() == []


LAUNCHER = """
    import pickle, sys, time
    from pathlib import Path
    from launcher.backends.local import LocalBackend

    plan = pickle.loads(Path(sys.argv[1]).read_bytes())
    LocalBackend(Path(sys.argv[2])).submit(plan)
    time.sleep(600)
"""


def launch_elsewhere(workplace: Workplace, plan: TrainingPlan) -> subprocess.Popen[bytes]:
    """Submit a plan from a process of its own, which a test can kill."""
    (workplace.folder / "plan").write_bytes(pickle.dumps(plan))
    words = [str(workplace.folder / "plan"), str(workplace.home)]
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(LAUNCHER), *words])


def test_a_killed_launcher_takes_its_job_with_it(workplace: Workplace) -> None:
    script = f"""{WAIT}
    (shared / f"running-{{os.environ['RANK']}}").touch()
    time.sleep(600)
    """
    launcher = launch_elsewhere(workplace, workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    try:
        eventually(lambda: all(workplace.shared(f"running-{rank}").exists() for rank in range(4)))
        assert len(workplace.processes()) == 2 + 2 + 4
    finally:
        launcher.kill()
        launcher.wait()
    eventually(lambda: not workplace.processes())
    status = LocalBackend(workplace.home).describe("job-1")
    assert status.state is JobState.FAILED
    assert status.failure_reason is not None
    assert f"process {launcher.pid}" in status.failure_reason


def test_what_outlives_launcher_and_boot_ends_when_the_job_is_looked_at(workplace: Workplace) -> None:
    script = f"""{WAIT}
    (shared / "running").touch()
    time.sleep(600)
    """
    launcher = launch_elsewhere(workplace, workplace.plan(script))
    try:
        eventually(workplace.shared("running").exists)
        boot = next(process for process in workplace.processes() if "--entry-point" in process.cmdline())
        boot.suspend()
    finally:
        launcher.kill()
        launcher.wait()
    backend = LocalBackend(workplace.home)
    assert backend.describe("job-1").state is JobState.STOPPING
    boot.kill()
    eventually(lambda: backend.describe("job-1").state is JobState.FAILED)
    assert workplace.processes() == []


def test_a_port_in_use_is_reported_before_anybody_waits(workplace: Workplace, backend: LocalBackend) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = str(other.getsockname()[1])
        plan = workplace.plan("pass", hosts=2, strategy="torchrun", environment={"MASTER_PORT": port})
        backend.submit(plan)
        reason = finish(backend).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: NCCL009 ")
    assert f"127.0.0.1:{port}" in reason
    assert "MASTER_PORT" in reason


def test_a_job_resumes_from_the_checkpoints_of_another(workplace: Workplace, backend: LocalBackend) -> None:
    script = """
        import os
        from pathlib import Path
        folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
        print("found", sorted(file.name for file in folder.iterdir()))
        (folder / f"epoch-{len(list(folder.iterdir()))}").touch()
    """
    backend.submit(workplace.plan(script, name="first"))
    finish(backend, "first")
    backend.submit(workplace.plan(script, name="second", resume_from="first"))
    finish(backend, "second")
    assert texts(backend, name="second")[-1] == "found ['epoch-0']"
    assert [file.name for file in workplace.shared("", "first").iterdir()] == ["epoch-0"]


def test_all_hosts_share_the_jobs_checkpoint_path(workplace: Workplace, backend: LocalBackend) -> None:
    script = """
        import os
        from pathlib import Path
        Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"]).touch()
    """
    checkpoints = {"S3Uri": "s3://bucket/prefix", "LocalPath": "/opt/ml/saved"}
    backend.submit(workplace.plan(script, hosts=2, CheckpointConfig=checkpoints))
    status = finish(backend)
    assert status.checkpoints is not None
    assert sorted(file.name for file in Path(status.checkpoints).iterdir()) == ["algo-1", "algo-2"]
    assert (workplace.home / "job-1" / "hosts" / "algo-1" / "ml" / "saved" / "algo-2").exists()


def test_a_channel_is_a_folder_of_this_machine(workplace: Workplace) -> None:
    data = workplace.folder / "data"
    data.mkdir()
    (data / "part").write_text("1 2 3")
    script = "import os; print(open(os.environ['SM_CHANNEL_TRAIN'] + '/part').read())"
    channels = [channel("train", "s3://bucket/train"), channel("code", "s3://bucket/code")]
    with LocalBackend(workplace.home, {"train": data}, SHORT) as backend:
        backend.submit(workplace.plan(script, InputDataConfig=channels))
        finish(backend)
        assert texts(backend)[-1] == "1 2 3"


@pytest.mark.parametrize(
    ("inputs", "mode", "message"),
    [
        ({}, {}, r"train comes from s3://bucket/train.*--input train=DIR"),
        ({"train": "missing"}, {}, r"missing, given for the channel train, is no folder"),
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


def test_what_cannot_run_here_is_refused(workplace: Workplace, backend: LocalBackend) -> None:
    plan = workplace.plan("pass", AlgorithmSpecification={"TrainingInputMode": "File"})
    with pytest.raises(BackendError, match="training toolkit of AWS's images"):
        backend.submit(plan)
    backend.submit(workplace.plan("pass"))
    finish(backend)
    with pytest.raises(BackendError, match="there is a local job job-1 already"):
        backend.submit(workplace.plan("pass"))
    with pytest.raises(BackendError, match=r"no local job other to resume from; there are: job-1"):
        backend.submit(workplace.plan("pass", name="job-2", resume_from="other"))


@pytest.mark.parametrize("name", ["unknown", "../job-1", ""])
def test_unknown_jobs_are_refused(workplace: Workplace, backend: LocalBackend, name: str) -> None:
    with pytest.raises(BackendError, match=r"no local job|no name of a training job"):
        backend.describe(name)
