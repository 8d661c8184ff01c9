"""Runs on a real Slurm: a controller and three nodes on this machine."""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.backends.interface import (
    BackendError,
    JobQuery,
    JobState,
    NameTakenError,
    UncertainError,
    UnknownJob,
)
from launcher.backends.slurm.commands import SlurmSilent
from launcher.diagnosis.model import StopCause, Verdict
from launcher.planning.finished_request import build_resumed_request
from launcher.planning.training_plan import TrainingPlan, rename_plan
from launcher.session.runs.diagnose_job import outcome_of
from launcher.session.submit_job import Start
from tests.backends.slurm.cluster import WAITS, SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster, mini_cluster, until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

SAVES_WHEN_ASKED = """
    import os, signal, sys, time
    from pathlib import Path

    place = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"])

    def save(number, frame):
        place.write_text("saved")
        print("saved", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    print("resumed" if place.exists() else "from nothing", flush=True)
    while not place.exists():
        time.sleep(0.1)
"""


def test_a_run_completes_with_the_lines_of_all_hosts_and_the_nodes_they_were_on(
    cluster: SlurmPlace,
) -> None:
    name = cluster.backend.submit(
        cluster.plan(
            """
            import os
            print("I am", os.environ["SM_CURRENT_HOST"], "of", os.environ["SM_HOSTS"], os.environ["WORDS"])
            """,
            environment={"WORDS": "it's $HOME and /opt/ml/model"},
        )
    )
    status = cluster.end_of(name)
    assert (status.state, status.failure_reason) == (JobState.COMPLETED, None)
    assert set(status.nodes) == {"algo-1", "algo-2"}
    assert set(status.nodes.values()) <= set(cluster.slurm.names)
    for host in ("algo-1", "algo-2"):
        model = cluster.shared / "slipway" / name / "hosts" / host / "ml" / "model"
        said = f'I am {host} of ["algo-1", "algo-2"] it\'s $HOME and {model}'
        assert said in cluster.texts(name, host)
        assert f"slipway: {host} is the node {status.nodes[host]}" in cluster.texts(name, host)
    assert [job.name for job in cluster.backend.jobs(JobQuery())] == [name]
    assert len(cluster.slurm.job_ids(name)) == 1


def test_ranks_meet_across_hosts_and_the_first_that_fails_is_named_with_its_host(cluster: SlurmPlace) -> None:
    plan = cluster.plan(
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        if dist.get_rank() == 3:
            raise ValueError("planted")
        dist.barrier()
        """,
        distribution={"strategy": "torchrun", "processes_per_host": 2},
    )
    name = cluster.backend.submit(plan)
    status = cluster.end_of(name)
    assert status.state is JobState.FAILED
    assert re.fullmatch(
        r"AlgorithmError: CODE001 rank 3 on algo-2: ValueError: planted .*, exit code: 1",
        str(status.failure_reason),
        re.DOTALL,
    )
    found = outcome_of(cluster.backend, status).diagnosis
    assert found is not None and found.root_cause is not None
    assert found.verdict is Verdict.FAILED
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("CODE001", 3)
    assert cluster.backend.failed_nodes(name, "algo-2") == (status.nodes["algo-2"],)


def test_a_run_that_is_stopped_saves_first_and_is_resumed_from_that(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(cluster.plan(SAVES_WHEN_ASKED))
    for host in ("algo-1", "algo-2"):
        until(lambda host=host: "from nothing" in cluster.texts(name, host))
    cluster.backend.stop(name, "the test")
    assert cluster.backend.describe(name).state in (JobState.STOPPING, JobState.STOPPED)
    status = cluster.end_of(name)
    assert status.state is JobState.STOPPED
    assert status.stop is not None
    assert (status.stop.cause, status.stop.who) == (StopCause.ASKED, "the test")
    assert any(text.startswith("slipway: STOP001 algo-1: asked") for text in cluster.texts(name, "algo-1"))
    assert outcome_of(cluster.backend, status).verdict is Verdict.STOPPED
    assert cluster.backend.has_checkpoint(name)
    request = build_resumed_request(cluster.backend.request_of(name), name, "digits-again")
    again = cluster.backend.resume(name, request)
    assert cluster.end_of(again).state is JobState.COMPLETED
    assert "resumed" in cluster.texts(again, "algo-1")


def test_a_run_whose_time_is_up_is_told_before_and_saves(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(cluster.plan(SAVES_WHEN_ASKED, limits={"max_runtime": "60s"}))
    cluster.wait_for(name, "from nothing")
    status = until(
        lambda: found if (found := cluster.backend.describe(name)).state.is_final else None, seconds=150
    )
    assert (status.state, status.phase) == (JobState.STOPPED, "MaxRuntimeExceeded")
    assert status.stop.cause is StopCause.MAX_RUNTIME
    assert "saved" in cluster.texts(name, "algo-1")


def test_a_run_that_waits_in_the_queue_leaves_it_when_it_is_stopped(cluster: SlurmPlace) -> None:
    plan = cluster.plan(WAITS, resources={"instance_type": "ml.m5.xlarge", "instance_count": 3})
    first = cluster.backend.submit(plan)
    cluster.wait_for(first, "waits")
    second = cluster.backend.submit(cluster.plan(WAITS))
    waiting = cluster.backend.describe(second)
    assert (waiting.state, waiting.phase) == (JobState.IN_PROGRESS, "Pending")
    assert "PENDING" in str(waiting.explanation)
    cluster.backend.stop(second)
    assert cluster.end_of(second).state is JobState.STOPPED
    cluster.backend.stop(first)
    assert cluster.end_of(first).state is JobState.STOPPED


def test_two_launches_of_one_run_start_one_job(cluster: SlurmPlace) -> None:
    plan = cluster.plan(WAITS)
    first = Start(cluster.backend, "ci-17").once(plan)
    again = Start(cluster.backend, "ci-17").once(cluster.plan(WAITS))
    assert first.begun is None
    assert again.begun is not None
    assert again.name == first.name
    assert len(cluster.slurm.job_ids(first.name)) == 1


def test_the_same_plan_again_finds_its_run_and_another_one_under_its_name_is_refused(
    cluster: SlurmPlace,
) -> None:
    plan = cluster.plan(WAITS)
    name = cluster.backend.submit(plan)
    assert cluster.backend.submit(plan) == name
    assert len(cluster.slurm.job_ids(name)) == 1
    other = rename_plan(cluster.plan(WAITS, hyperparameters={"lr": 1}), name)
    with pytest.raises(NameTakenError, match="of another job"):
        cluster.backend.submit(other)


def test_launches_of_one_run_at_the_same_moment_start_one_job(cluster: SlurmPlace) -> None:
    plans = [cluster.plan(WAITS) for _ in range(4)]

    def attempt(plan: TrainingPlan) -> str | None:
        try:
            return Start(cluster.backend, "ci-18").once(plan).name
        except (UncertainError, NameTakenError):
            return None

    with ThreadPoolExecutor(4) as pool:
        names = {name for name in pool.map(attempt, plans) if name}
    (name,) = names
    assert len(cluster.slurm.job_ids(name)) == 1
    assert len(cluster.backend.job_names()) == 1


def test_a_second_job_for_a_run_does_nothing(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(cluster.plan(WAITS))
    cluster.wait_for(name, "waits")
    script = cluster.shared / "slipway" / name / "job.sbatch"
    second = cluster.slurm.call("sbatch", "--parsable", "--nodes=1", str(script)).strip()
    until(lambda: cluster.slurm.job_field(second, "JobState") == "COMPLETED")
    assert any(f"{second} does nothing" in text for text in cluster.texts(name, "slurm"))
    assert cluster.backend.describe(name).state is JobState.IN_PROGRESS


def test_what_a_killed_launch_left_before_sbatch_is_made_anew(cluster: SlurmPlace) -> None:
    plan = cluster.plan("print('trained')")
    name = str(plan.name)
    folder = cluster.shared / "slipway" / name
    folder.mkdir(parents=True)
    with pytest.raises(UncertainError, match="another launch"):
        cluster.backend.submit(plan)
    os.utime(folder, (0, 0))
    assert cluster.backend.submit(plan) == name
    assert cluster.end_of(name).state is JobState.COMPLETED


def test_what_slurm_refuses_leaves_nothing(cluster: SlurmPlace) -> None:
    plan = cluster.plan(WAITS)
    section = {"partition": "absent", "shared": str(cluster.shared), "python": sys.executable}
    refused = cluster.plan(WAITS, slurm=section)
    with pytest.raises(BackendError, match="Invalid partition"):
        cluster.backend.submit(refused)
    assert cluster.backend.job_names() == []
    with pytest.raises(UnknownJob):
        cluster.backend.describe(str(plan.name))


def test_a_preempted_run_saves_is_requeued_and_goes_on_from_its_checkpoint(cluster: SlurmPlace) -> None:
    everything = {"instance_type": "ml.m5.xlarge", "instance_count": 3}
    name = cluster.backend.submit(cluster.plan(SAVES_WHEN_ASKED, resources=everything))
    cluster.wait_for(name, "from nothing")
    section = {"partition": "urgent", "shared": str(cluster.shared), "python": sys.executable}
    urgent = cluster.backend.submit(
        cluster.plan("print('urgent')", resources=everything, slurm=section, name="urgent")
    )
    assert cluster.end_of(urgent).state is JobState.COMPLETED
    assert any(text.startswith("slipway: STOP001") for text in cluster.texts(name, "algo-1"))
    (job_id,) = cluster.slurm.job_ids(name)
    cluster.slurm.start_again(job_id)
    status = cluster.end_of(name)
    assert status.state is JobState.COMPLETED
    assert [each.phase for each in status.transitions] == ["Training", "Restarting"]
    assert "resumed" in cluster.texts(name, "algo-1")


def test_a_run_whose_node_is_lost_starts_again_on_another(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(
        cluster.plan(
            """
            import os, time
            from pathlib import Path
            here = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "begun")
            again = here.exists()
            print("again" if again else "waits", flush=True)
            time.sleep(1)
            here.touch()
            time.sleep(0 if again else 600)
            """
        )
    )
    cluster.wait_for(name, "waits")
    until(lambda: (cluster.shared / "slipway" / name / "checkpoints" / "begun").exists())
    lost = cluster.backend.describe(name).nodes["algo-2"]
    cluster.slurm.lose_node(lost)
    (job_id,) = cluster.slurm.job_ids(name)
    cluster.slurm.start_again(job_id)
    status = cluster.end_of(name)
    cluster.slurm.start_node(lost)
    assert status.state is JobState.COMPLETED
    assert lost not in status.nodes.values()
    assert "again" in cluster.texts(name, "algo-1")


def test_a_broken_munge_is_named_and_nothing_is_lost_or_doubled(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(cluster.plan(WAITS))
    cluster.wait_for(name, "waits")
    plan = cluster.plan(WAITS)
    cluster.slurm.stop_munge()
    try:
        with pytest.raises(SlurmSilent, match="munge"):
            cluster.backend.submit(plan)
        with pytest.raises(SlurmSilent, match="munge"):
            cluster.backend.describe(name)
    finally:
        cluster.slurm.start_munge()
    assert cluster.backend.describe(name).state is JobState.IN_PROGRESS
    assert cluster.backend.job_names() == [name]
    assert cluster.slurm.job_ids(str(plan.name)) == []


def test_a_controller_that_restarts_is_waited_for_and_keeps_the_job(cluster: SlurmPlace) -> None:
    name = cluster.backend.submit(cluster.plan(SAVES_WHEN_ASKED))
    cluster.wait_for(name, "from nothing")
    cluster.slurm.stop_controller()
    try:
        with pytest.raises(SlurmSilent, match="controller"):
            cluster.backend.describe(name)
    finally:
        cluster.slurm.start_controller()
    cluster.backend.stop(name)
    assert cluster.end_of(name).state is JobState.STOPPED


def test_how_a_run_ended_is_known_when_slurm_has_forgotten_its_job(
    running_slurm: MiniCluster, tmp_path: Path
) -> None:
    with mini_cluster(tmp_path / "c", nodes=1, forgets_after=2) as forgetful:
        cluster = SlurmPlace(forgetful, tmp_path, forgetful.shared)
        one = {"instance_type": "ml.m5.xlarge"}
        name = cluster.backend.submit(cluster.plan("raise SystemExit(3)", resources=one))
        until(lambda: not forgetful.job_ids(name))
        status = cluster.end_of(name)
    assert status.state is JobState.FAILED
    assert "exit code: 3" in str(status.failure_reason)
    assert "forgotten" in str(status.explanation)
