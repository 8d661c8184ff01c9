"""What Slurm's programs print, as Slurm 22.05 did, and what their errors mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.backends.interface import BackendError, JobState, UncertainError
from launcher.backends.slurm.commands import SlurmCommands, SlurmSilent, expand_nodes, fields_of, jobs_in

JOB = (
    "JobId=3 JobName=hello UserId=root(0) JobState=PENDING Reason=BeginTime Dependency=(null) Restarts=1 "
    "StartTime=1795960000 EndTime=Unknown NodeList= Command=/tmp/a b/j.sh Comment=two words "
    "StdOut=/tmp/out-3 Power="
)
PARTITION = (
    "PartitionName=train AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=1-04:00:00 Nodes=n[1-2],m07 "
    "State=UP"
)
NODE = (
    "NodeName=n1 CPUTot=96 AvailableFeatures=nvme,a100 Gres=gpu:a100:8(S:0-1),nic:1 RealMemory=8000 "
    "State=IDLE"
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for programs that stand for Slurm's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def commands(folder: Path, **programs: str) -> SlurmCommands:
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return SlurmCommands({"PATH": f"{folder}:/usr/bin:/bin"})


def printing(text: str) -> str:
    return f"cat <<'E'\n{text}\nE"


def failing(said: str) -> str:
    return f"echo '{said}' >&2; exit 1"


def test_the_fields_of_a_line_may_hold_blanks_and_nothing() -> None:
    fields = fields_of(JOB)
    assert (fields["Command"], fields["Comment"], fields["Power"]) == ("/tmp/a b/j.sh", "two words", "")


def test_a_job_is_read(programs: Path) -> None:
    job = commands(programs, scontrol=printing(JOB)).job("3")
    assert job is not None
    assert (job.job_id, job.state, job.reason, job.restarts) == ("3", "PENDING", "BeginTime", 1)
    assert (job.started, job.ended, job.end, job.phase) == (1795960000.0, None, None, "Pending")
    assert jobs_in("No jobs in the system") == []


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ("COMPLETED", JobState.COMPLETED),
        ("CANCELLED by 0", JobState.STOPPED),
        ("OUT_OF_MEMORY", JobState.FAILED),
    ],
)
def test_a_job_that_the_controller_has_forgotten_is_asked_of_the_accounts(
    programs: Path, state: str, end: JobState
) -> None:
    forgot = failing("slurm_load_jobs error: Invalid job id specified")
    accounts = printing(f"3|{state}|n[1-2]|1795960000|1795960100|2")
    job = commands(programs, scontrol=forgot, sacct=accounts).job("3")
    assert job is not None
    assert (job.end, job.nodes, job.restarts, job.ended) == (end, "n[1-2]", 2, 1795960100.0)


@pytest.mark.parametrize("accounts", ["exit 0", failing("Slurm accounting storage is disabled")])
def test_without_accounts_a_forgotten_job_is_unknown(programs: Path, accounts: str) -> None:
    forgot = failing("slurm_load_jobs error: Invalid job id specified")
    assert commands(programs, scontrol=forgot, sacct=accounts).job("3") is None


def test_partitions_and_nodes_are_read(programs: Path) -> None:
    shown = f'if [ "$2" = node ]; then echo "{NODE}"; else echo "{PARTITION}"; fi'
    cluster = commands(programs, scontrol=shown).cluster()
    partition = cluster.partition(None)
    assert partition is not None
    assert (partition.name, partition.nodes) == ("train", ("n1", "n2", "m07"))
    assert (partition.max_seconds, partition.max_nodes) == (28 * 3600, None)
    (node,) = cluster.nodes
    assert (node.cpus, node.memory_mb, node.gpus, node.features) == (96, 8000, 8, ("nvme", "a100"))
    assert node.takes_jobs


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[001-003,7],login", ["gpu-001", "gpu-002", "gpu-003", "gpu-7", "login"]),
        ("n1", ["n1"]), ("a[1-2]-ib", ["a1-ib", "a2-ib"]), ("(null)", []), ("", []),
    ],
)  # fmt: skip
def test_a_list_of_nodes_is_written_out(text: str, names: list[str]) -> None:
    assert expand_nodes(text) == names


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name", BackendError, "partition"),
        (
            'sbatch: error: Munge encode failed: Failed to access "/run/munge.socket.2": No such file',
            SlurmSilent,
            "munge",
        ),
        ("sbatch: error: Batch job submission failed: Protocol authentication error", SlurmSilent, "munge"),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller",
            SlurmSilent,
            "controller does not answer",
        ),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            UncertainError,
            "did not say whether",
        ),
    ],
)  # fmt: skip
def test_what_sbatch_refuses_is_told_by_what_it_means(
    programs: Path, said: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        commands(programs, sbatch=failing(said)).submit(programs / "job.sbatch")


def test_the_id_of_a_submitted_job_is_read_without_its_cluster(programs: Path) -> None:
    assert commands(programs, sbatch="echo '4711;gpu'").submit(programs / "job.sbatch") == "4711"
