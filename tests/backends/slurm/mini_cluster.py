"""A real Slurm on this machine: munge, a controller and some nodes, all in one folder and on loopback.

Several slurmd run beside one another by their names and ports (slurmd(8), -N); nothing of it needs cgroups,
an accounting database or the system's own services. It asks for the packages slurm-wlm and munge
(docs/contributing/developing.md), and for root, as slurmd does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol", "squeue", "scancel")
PATIENCE_SECONDS = 90.0

_CONFIGURATION = """\
ClusterName=mini
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=8
KillWait=5
MinJobAge={forgets_after}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
GresTypes=gpu
{nodes}
PartitionName=train Nodes=ALL Default=YES MaxTime=4:00:00 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=4:00:00 PriorityTier=10
"""


def missing_programs() -> list[str]:
    """What of Slurm is not installed here."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def skip_without_slurm() -> None:
    """Skip the test that asks where no Slurm can be started, and say what is missing."""
    if missing := missing_programs():
        pytest.skip(f"Slurm is not installed ({', '.join(missing)}): apt-get install slurm-wlm munge")
    if os.geteuid() != 0:
        pytest.skip("Slurm's nodes are started by root alone")


@dataclass
class MiniCluster:
    """The cluster in a folder; `environment` is what its commands and the launcher need."""

    folder: Path
    names: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def shared(self) -> Path:
        """The folder that all nodes see."""
        return self.folder / "shared"

    def call(self, *words: str) -> str:
        """Run one of Slurm's programs, and return what it prints."""
        ran = subprocess.run(
            list(words), env=self.environment, capture_output=True, text=True, check=False, timeout=30
        )
        assert ran.returncode == 0, f"{words}: {ran.stderr}"
        return ran.stdout

    def job_ids(self, name: str | None = None) -> list[str]:
        """The ids of the jobs that the controller knows, ended ones too."""
        which = [f"--name={name}"] if name else []
        return sorted(set(self.call("squeue", "--noheader", "--states=all", "--format=%A", *which).split()))

    def job_field(self, job_id: str, name: str) -> str:
        """A field of a job, as scontrol shows it."""
        match = re.search(rf"(?:^| ){name}=(\S*)", self.call("scontrol", "show", "job", "-o", job_id))
        assert match is not None
        return match[1]

    def start_again(self, job_id: str) -> None:
        """Start a job that was requeued at once, which Slurm lets wait for two minutes, so that its nodes are
        rid of its earlier start."""
        until(lambda: self.job_field(job_id, "Restarts") == "1")
        until(lambda: self.job_field(job_id, "JobState") == "PENDING")
        until(lambda: "comp" not in self.call("sinfo", "--noheader", "--Node", "--format=%t"))
        self.call("scontrol", "update", f"JobId={job_id}", "StartTime=now")

    def start_munge(self) -> None:
        """Start munged, and wait for its socket."""
        munge = self.folder / "munge"
        words = [
            "munged",
            "--force",
            *(f"--{name}={munge / name}" for name in ("socket", "pid-file", "log-file")),
        ]
        subprocess.run(
            [*words, f"--key-file={munge / 'key'}", f"--seed-file={munge / 'seed'}"],
            env=self.environment,
            check=True,
            capture_output=True,
        )
        until((munge / "socket").exists)

    def stop_munge(self) -> None:
        """End munged."""
        _end(self.folder / "munge" / "pid-file")
        until(lambda: not (self.folder / "munge" / "socket").exists())

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        subprocess.run(["slurmctld"], env=self.environment, check=True, capture_output=True)
        until(lambda: self._answers("scontrol", "ping"))

    def stop_controller(self) -> None:
        """End slurmctld, which keeps its state on the disk."""
        _end(self.folder / "slurmctld.pid")

    def start_node(self, name: str) -> None:
        """Start a node's slurmd."""
        subprocess.run(["slurmd", "-N", name], env=self.environment, check=True, capture_output=True)

    def lose_node(self, name: str) -> None:
        """Kill a node's slurmd and all that it runs, as a host that loses its power."""
        mark = f"SLURMD_NODENAME={name} "
        tasks = [each for each in _processes(self.folder) if mark in each.texts[1]]
        lost = {each.pid for each in tasks} | {_parent(each.pid) for each in tasks}
        _end(self.folder / f"{name}.pid", signal_number=9)
        # All at once: whoever watches over a process could else tell of its end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in lost - {0, 1, os.getpid()}:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def ready(self) -> None:
        """Wait until all nodes take jobs, and bring those back that do not."""

        def idle() -> bool:
            states = self.call("sinfo", "--noheader", "--Node", "--partition=train", "--format=%N %t").split(
                "\n"
            )
            found = dict(line.split() for line in states if line)
            for name, state in found.items():
                if state.startswith(("down", "drain")):
                    with contextlib.suppress(AssertionError):
                        self.call("scontrol", "update", f"NodeName={name}", "State=RESUME")
            return set(found) == set(self.names) and all(state == "idle" for state in found.values())

        until(idle)

    def _answers(self, *words: str) -> bool:
        ran = subprocess.run(list(words), env=self.environment, capture_output=True, text=True, check=False)
        return "is UP" in ran.stdout


@contextlib.contextmanager
def mini_cluster(folder: Path, nodes: int = 3, forgets_after: int = 300) -> Iterator[MiniCluster]:
    """A cluster of so many nodes; nothing of it is left afterwards."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    for name in ("munge", "state", "spool", "shared"):
        (folder / name).mkdir(parents=True)
    (folder / "munge").chmod(0o755)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    ports = _free_ports(nodes + 1)
    lines = [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=8000"
        for name, port in zip(names, ports[1:], strict=True)
    ]
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder, controller=ports[0], nodes="\n".join(lines), forgets_after=forgets_after
        )
    )
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    environment = {**os.environ, "SLURM_CONF": str(configuration), "PATH": path}
    cluster = MiniCluster(folder, names, environment)
    with ExitStack() as stack:
        stack.callback(_end_all, folder)
        cluster.start_munge()
        cluster.start_controller()
        for name in names:
            cluster.start_node(name)
        cluster.ready()
        yield cluster


def until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """The condition's first true value; fails when it does not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError("waited in vain")


@dataclass
class _Process:
    pid: int
    texts: tuple[str, ...]


def _processes(folder: Path) -> Iterator[_Process]:
    """The living processes whose command or environment speaks of the folder."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            texts = tuple(
                (entry / name).read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                for name in ("cmdline", "environ")
            )
            if any(str(folder) in text for text in texts):
                yield _Process(int(entry.name), texts)


def _parent(pid: int) -> int:
    """The process that started another, such as the slurmstepd of a task; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _end(pid_file: Path, signal_number: int = 15) -> None:
    """End the daemon of that file, and wait until it has."""
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, signal_number)
    except (OSError, ValueError):
        return
    until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _end_all(folder: Path) -> None:
    """Kill what was started in the folder: first the daemons, then what they had started."""
    for pid_file in [folder / "munge" / "pid-file", *folder.glob("*.pid")]:
        with contextlib.suppress(AssertionError):
            _end(pid_file, signal_number=9)
    own = os.getpid()
    for process in _processes(folder):
        # Not whoever runs the tests, who may have the folder's name, with pytest in it, in a variable.
        if process.pid != own and "pytest" not in process.texts[0].replace(str(folder), ""):
            with contextlib.suppress(OSError):
                os.kill(process.pid, 9)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
        return found
