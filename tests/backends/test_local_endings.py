"""How local jobs end: named for their first cause, or stopped, and nothing is left of them."""

from __future__ import annotations

import contextlib
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import psutil
import pytest

from launcher.backends.interface import JobState
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.files import hosts_of
from launcher.backends.local.processes import boots_among
from launcher.diagnosis.model import StopCause, Verdict
from launcher.planning.training_plan import TrainingPlan
from launcher.session.runs.diagnose_job import diagnose_job
from tests.backends.workplace import (
    PATIENCE_SECONDS,
    SHORT,
    WAIT,
    Workplace,
    all_lines,
    eventually,
    finish,
)


def test_an_exception_names_the_rank_the_host_and_the_line(workplace: Workplace, local: LocalBackend) -> None:
    # The other host waits for ever, as one does at a collective: it has to be ended.
    script = """
        import os, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2":
            raise ValueError("bad learning rate")
        time.sleep(600)
    """
    local.submit(workplace.plan(script, hosts=2))
    status = finish(local)
    assert status.state is JobState.FAILED
    assert status.failure_reason is not None
    assert status.failure_reason.splitlines()[0] == (
        "AlgorithmError: CODE001 rank 1 on algo-2: ValueError: bad learning rate (train.py:4)"
    )
    assert status.failure_reason.endswith("ValueError: bad learning rate, exit code: 1")
    assert workplace.processes() == []


def test_a_run_is_not_completed_where_the_embedding_program_ignores_sigchld(workplace: Workplace) -> None:
    """A notebook's or a service's own setting is left as it is, and its price is said."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with LocalBackend(workplace.home, grace=SHORT) as local:
            local.submit(workplace.plan("print('trained')"))
            status = finish(local)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert status.state is JobState.FAILED
    assert "ignores SIGCHLD" in str(status.failure_reason)


def test_the_hosts_of_a_run_have_a_token_which_their_ranks_do_not_get(
    workplace: Workplace, local: LocalBackend
) -> None:
    local.submit(workplace.plan("import os; print('SLIPWAY_HOST_TOKEN' in os.environ)", hosts=2))
    assert finish(local).state is JobState.COMPLETED
    printed = [line.text for line in all_lines(local)]
    assert printed.count("False") == 2
    # The first boot says so where it has none.
    assert not any("SLIPWAY_HOST_TOKEN" in line for line in printed)


def test_a_host_that_only_lost_its_peer_is_not_the_cause(workplace: Workplace) -> None:
    # Its report is there first; the host that is the cause has all the time it needs for its own.
    innocent = hosts_of(workplace.home / "job-1", 2)[0].failure
    script = f"""{WAIT}
    if os.environ["SM_CURRENT_HOST"] == "algo-1":
        raise RuntimeError("[gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:8")
    wait_for({str(innocent)!r})
    raise KeyError("label")
    """
    with LocalBackend(workplace.home, grace=replace(SHORT, peers=PATIENCE_SECONDS)) as local:
        local.submit(workplace.plan(script, hosts=2))
        reason = finish(local).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: CODE001 rank 1 on algo-2: KeyError: 'label'")


@pytest.mark.exhaustive
def test_a_failure_is_not_lost_though_its_host_comes_down_last(
    workplace: Workplace, local: LocalBackend
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
    local.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    reason = finish(local).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: CODE001 rank 1 on algo-1: ValueError: the cause")


def test_a_killed_rank_is_named_and_nothing_is_left(workplace: Workplace, local: LocalBackend) -> None:
    script = """
        import os, signal, time
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    """
    local.submit(workplace.plan(script, strategy="torchrun", processes=2))
    status = finish(local)
    assert status.failure_reason == (
        "AlgorithmError: MEM002 rank 1 on algo-1: killed by SIGKILL (exit -9): the usual reason is host "
        "memory, exit code: 137"
    )
    assert workplace.processes() == []


def test_a_stop_lets_the_script_save_its_work(workplace: Workplace, local: LocalBackend) -> None:
    script = f"""{WAIT}
    def save(number, frame):
        (shared / "saved").write_text("epoch 3")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    (shared / "running").touch()
    time.sleep(600)
    """
    local.submit(workplace.plan(script))
    eventually(workplace.shared("running").exists)
    assert local.describe("job-1").state is JobState.IN_PROGRESS
    local.stop("job-1")
    assert finish(local).state is JobState.STOPPED
    assert workplace.shared("saved").read_text() == "epoch 3"
    assert workplace.processes() == []


def test_torchruns_workers_are_known_by_their_ranks_asked_themselves_and_end_well(
    workplace: Workplace, local: LocalBackend
) -> None:
    script = f"""{WAIT}
    rank = os.environ["RANK"]
    print("hello from", rank, flush=True)

    def save(number, frame):
        (shared / f"saved-{{rank}}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    (shared / f"running-{{rank}}").touch()
    time.sleep(600)
    """
    local.submit(workplace.plan(script, hosts=2, strategy="torchrun", processes=2))
    eventually(lambda: all(workplace.shared(f"running-{rank}").exists() for rank in range(4)))
    local.stop("job-1")
    assert finish(local).state is JobState.STOPPED
    assert all(workplace.shared(f"saved-{rank}").exists() for rank in range(4))
    # Not torchrun's own: whose store is gone before the other host's last question, prints one of its own.
    printed = [line.text for line in all_lines(local)]
    assert sorted(text for text in printed if "hello" in text) == [
        f"[rank{rank}]:hello from {rank}" for rank in range(4)
    ]
    ranks = [text for text in printed if text.startswith("[rank") or "ChildFailedError" in text]
    assert not any("Traceback" in text or "ChildFailedError" in text for text in ranks), "\n".join(printed)
    assert workplace.processes() == []
    assert sum("slipway: STOP001 algo-" in text for text in printed) == 2
    assert diagnose_job(local, "job-1").verdict is Verdict.STOPPED


def test_a_script_that_ignores_the_stop_is_killed_after_the_grace(workplace: Workplace) -> None:
    script = f"""{WAIT}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (shared / "running").touch()
    time.sleep(600)
    """
    with LocalBackend(workplace.home, grace=replace(SHORT, stop=0.5)) as local:
        local.submit(workplace.plan(script))
        eventually(workplace.shared("running").exists)
        local.stop("job-1")
        status = finish(local)
    assert (status.state, status.failure_reason) == (JobState.STOPPED, None)
    assert workplace.processes() == []
    diagnosis = diagnose_job(local, "job-1")
    assert diagnosis.verdict is Verdict.STOPPED
    assert "stopped from outside at" in diagnosis.findings[0].message


def test_another_launcher_may_stop_the_job(workplace: Workplace, local: LocalBackend) -> None:
    local.submit(workplace.plan("import time; time.sleep(600)"))
    LocalBackend(workplace.home).stop("job-1", "launch stop (process 7, user\x1b[31m mia)")
    status = finish(local)
    assert status.state is JobState.STOPPED
    assert status.stop is not None
    assert (status.stop.cause, status.stop.who) == (StopCause.ASKED, "launch stop (process 7, user mia)")
    # What it wrote is what other launchers read.
    assert LocalBackend(workplace.home).describe("job-1").stop == status.stop


def test_closing_the_backend_ends_its_jobs(workplace: Workplace) -> None:
    with LocalBackend(workplace.home, grace=SHORT) as local:
        local.submit(workplace.plan("import time; time.sleep(600)", hosts=2))
        eventually(workplace.processes)
    assert workplace.processes() == []
    assert local.describe("job-1").state is JobState.STOPPED


def test_the_limit_on_the_run_time_holds(workplace: Workplace, local: LocalBackend) -> None:
    plan = workplace.plan("import time; time.sleep(600)", StoppingCondition={"MaxRuntimeInSeconds": 1})
    local.submit(plan)
    status = finish(local)
    assert (status.state, status.phase) == (JobState.STOPPED, "MaxRuntimeExceeded")
    assert status.stop is not None
    assert (status.stop.cause, status.stop.limit) == (StopCause.MAX_RUNTIME, 1)


RUNS_ON = f"""{WAIT}
    (shared / "running").touch()
    time.sleep(600)
"""
DAEMON = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
"""


def test_what_a_script_leaves_in_the_background_is_ended(workplace: Workplace, local: LocalBackend) -> None:
    local.submit(workplace.plan(DAEMON))
    assert finish(local).state is JobState.COMPLETED
    assert workplace.processes() == []


@pytest.mark.few_cases("none")
@pytest.mark.parametrize("strategy", ["torchrun", "none"])
def test_a_killed_boot_leaves_nothing_behind(
    workplace: Workplace, local: LocalBackend, strategy: str
) -> None:
    local.submit(workplace.plan(RUNS_ON, hosts=2, strategy=strategy))
    eventually(workplace.shared("running").exists)
    boots = [process for process in workplace.processes() if "--entry-point" in process.cmdline()]
    next(boot for boot in boots if "algo-2" in boot.environ()["SLIPWAY_ROOT"]).kill()
    status = finish(local)
    assert status.failure_reason is not None
    assert status.failure_reason.startswith("AlgorithmError: MEM002 algo-2: the boot was killed by SIGKILL")
    assert workplace.processes() == []


LAUNCHER = """
    import pickle, sys, time
    from pathlib import Path
    from launcher.backends.local.backend import LocalBackend

    plan = pickle.loads(Path(sys.argv[1]).read_bytes())
    LocalBackend(Path(sys.argv[2])).submit(plan)
    time.sleep(600)
"""


def launch_elsewhere(workplace: Workplace, plan: TrainingPlan) -> subprocess.Popen[bytes]:
    """Submit a plan from a process of its own, which a test can kill."""
    (workplace.folder / "plan").write_bytes(pickle.dumps(plan))
    words = [str(workplace.folder / "plan"), str(workplace.home)]
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(LAUNCHER), *words])


@pytest.mark.few_cases("none-1")
@pytest.mark.parametrize(("strategy", "processes"), [("torchrun", 2), ("none", 1)])
def test_a_killed_launcher_takes_its_job_with_it(workplace: Workplace, strategy: str, processes: int) -> None:
    script = f"""{WAIT}
    (shared / f"running-{{os.environ['SM_CURRENT_HOST']}}-{{os.environ.get('LOCAL_RANK', 0)}}").touch()
    time.sleep(600)
    """
    plan = workplace.plan(script, hosts=2, strategy=strategy, processes=processes)
    launcher = launch_elsewhere(workplace, plan)
    ranks = [f"algo-{host}-{rank}" for host in (1, 2) for rank in range(processes)]
    try:
        eventually(lambda: all(workplace.shared(f"running-{rank}").exists() for rank in ranks))
        # Boots, and where there is torchrun its agents, beside the ranks.
        assert len(workplace.processes()) == (4 if strategy == "torchrun" else 2) + len(ranks)
    finally:
        killed_at = time.time() - 0.1
        launcher.kill()
        launcher.wait()
    eventually(lambda: not workplace.processes())
    status = LocalBackend(workplace.home).describe("job-1")
    assert (status.state, status.failure_reason) == (JobState.STOPPED, None)
    assert status.stop is not None
    assert (status.stop.cause, status.stop.who) == (StopCause.LAUNCHER, f"process {launcher.pid}")
    assert status.stop.at is not None
    assert killed_at <= status.stop.at <= time.time()


@pytest.mark.few_cases("none")
@pytest.mark.parametrize("strategy", ["torchrun", "none"])
def test_nothing_outlives_launcher_and_boots_that_are_killed_together(
    workplace: Workplace, strategy: str
) -> None:
    script = f"""{WAIT}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        (shared / f"running-{{os.environ['SM_CURRENT_HOST']}}").touch()
    time.sleep(600)
    """
    launcher = launch_elsewhere(workplace, workplace.plan(script, hosts=2, strategy=strategy))
    try:
        eventually(lambda: all(workplace.shared(f"running-algo-{host}").exists() for host in (1, 2)))
        boots = boots_among(workplace.processes())
        assert len(boots) == 2
    finally:
        for process in (psutil.Process(launcher.pid), *boots):
            process.suspend()
        for process in (psutil.Process(launcher.pid), *boots):
            process.kill()
        launcher.wait()
    eventually(lambda: not workplace.processes())
    eventually(lambda: not keepers(workplace))


@pytest.mark.parametrize("more", ["", ", start_new_session=True"], ids=["session", "child"])
def test_what_cleared_its_environment_does_not_outlive_them_either(workplace: Workplace, more: str) -> None:
    script = f"""{WAIT}
    import subprocess
    # Without its parent it is in the job's session alone, in a session of its own it is the job's child.
    command = ["sleep", "600"] if {bool(more)} else ["sh", "-c", "sleep 600 & echo $!"]
    started = subprocess.Popen(command, env={{}}, stdout=subprocess.PIPE{more})
    pid = started.pid if {bool(more)} else int(started.stdout.readline())
    (shared / "new").write_text(str(pid))
    (shared / "new").rename(shared / "pid")
    time.sleep(600)
    """
    launcher = launch_elsewhere(workplace, workplace.plan(script))
    try:
        eventually(workplace.shared("pid").exists)
        daemon = psutil.Process(int(workplace.shared("pid").read_text()))
        eventually(lambda: daemon.name() == "sleep")
        boots = boots_among(workplace.processes())
    finally:
        for process in (psutil.Process(launcher.pid), *boots):
            process.suspend()
        for process in (psutil.Process(launcher.pid), *boots):
            process.kill()
        launcher.wait()
    try:
        eventually(lambda: not workplace.processes())
        eventually(lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE)
    finally:
        if daemon.is_running():
            daemon.kill()


def test_the_keeper_ends_with_the_job(workplace: Workplace, local: LocalBackend) -> None:
    local.submit(workplace.plan(f"{WAIT}\n    wait_for('go on')"))
    eventually(lambda: keepers(workplace))
    workplace.shared("go on").touch()
    finish(local)
    assert not keepers(workplace)


def keepers(workplace: Workplace) -> list[psutil.Process]:
    """The processes that wait to end what is left of the workplace's job."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(workplace.home / "job-1") in process.cmdline()[1:] and process.status() != "zombie":
                found.append(process)
    return found


def test_what_outlives_launcher_and_boot_ends_when_the_job_is_looked_at(workplace: Workplace) -> None:
    launcher = launch_elsewhere(workplace, workplace.plan(RUNS_ON))
    try:
        eventually(workplace.shared("running").exists)
        boot = next(process for process in workplace.processes() if "--entry-point" in process.cmdline())
        boot.suspend()
    finally:
        launcher.kill()
        launcher.wait()
    local = LocalBackend(workplace.home)
    assert local.describe("job-1").state is JobState.STOPPING
    boot.kill()
    eventually(lambda: local.describe("job-1").state is JobState.STOPPED)
    assert workplace.processes() == []


def test_a_port_in_use_is_reported_before_anybody_waits(workplace: Workplace, local: LocalBackend) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = str(other.getsockname()[1])
        plan = workplace.plan("pass", hosts=2, strategy="torchrun", environment={"MASTER_PORT": port})
        local.submit(plan)
        reason = finish(local).failure_reason
    assert reason is not None
    assert reason.startswith("AlgorithmError: NCCL009 ")
    assert f"127.0.0.1:{port}" in reason
    assert "MASTER_PORT" in reason
