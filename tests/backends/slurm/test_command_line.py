"""The command line on a real Slurm: launch, follow, try again on another node, look at, stop, resume."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.slurm.commands import SlurmCommands
from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.mini_cluster import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

ROOT = Path(__file__).parents[3]

FAILS_ONCE = """
    import os
    from pathlib import Path
    begun = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "begun")
    if os.environ["SM_CURRENT_HOST"] == "algo-1" and not begun.exists():
        begun.touch()
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    print("trained", flush=True)
"""

BREAKS_ON_TWO_HOSTS = """
    import itertools, os, time
    if len(os.environ["SM_HOSTS"].split(",")) == 2 and "SLURM_JOB_ID" in os.environ:
        raise ValueError("planted")
    for step in itertools.count():
        print(f"step={step} loss=1.0", flush=True)
        time.sleep(0.05)
"""

HANGS = """
    import time
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1_000_000):
        if step == 20 and dist.get_rank() == 2:
            time.sleep(600)
        optimizer.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
"""


def launch(cluster: SlurmPlace, *words: str, code: int = 0) -> str:
    """Run the command line; its stdout. The exit code must be `code`."""
    ran = subprocess.run(
        [sys.executable, "-m", "launcher.cli.app", *words],
        env={
            **cluster.slurm.environment,
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        },
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=200,
    )
    assert ran.returncode == code, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def as_json(cluster: SlurmPlace, *words: str, code: int = 0) -> Any:
    return json.loads(launch(cluster, *words, "--output", "json", code=code))


def test_a_run_is_launched_listed_looked_at_stopped_and_resumed_by_its_name(cluster: SlurmPlace) -> None:
    file = cluster.job(
        """
        import os, time
        from pathlib import Path
        begun = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "begun")
        if begun.exists():
            print("resumed", flush=True)
            raise SystemExit
        begun.touch()
        print("waits", flush=True)
        time.sleep(600)
        """,
        backend="sagemaker",
    )
    name = as_json(cluster, str(file), "--slurm", "train", "--detach", "--run-id", "ci-1")["name"]
    again = as_json(cluster, str(file), "--slurm", "train", "--detach", "--run-id", "ci-1")["name"]
    assert again == name
    until(lambda: "waits" in launch(cluster, "logs", name))
    assert [job["name"] for job in as_json(cluster, "list", "--slurm")["jobs"]] == [name]
    status = as_json(cluster, "status", name)
    assert (status["state"], status["phase"]) == ("InProgress", "Training")
    assert as_json(cluster, "stop", name)["asked_to_stop"]
    until(lambda: as_json(cluster, "status", name)["state"] == "Stopped")
    assert as_json(cluster, "diagnose", name)["verdict"] == "stopped"
    resumed = as_json(cluster, "resume", name)
    assert (resumed["state"], resumed["resumed_from"]) == ("Completed", name)
    assert "resumed" in launch(cluster, "logs", resumed["name"])
    launch(cluster, "report", name)


def test_after_a_fault_of_its_hardware_another_attempt_goes_to_other_nodes(cluster: SlurmPlace) -> None:
    job = cluster.job(FAILS_ONCE, limits={"max_runtime": "30m", "max_retries": 1})
    result = as_json(cluster, str(job))
    first, second = result["attempts"]
    assert result["state"] == "Completed"
    failed = cluster.backend.describe(first).nodes["algo-1"]
    assert failed not in cluster.backend.describe(second).nodes.values()
    script = (cluster.shared / "slipway" / second / "job.sbatch").read_text()
    assert f"#SBATCH --exclude={failed}\n" in script


def test_two_runs_are_compared(cluster: SlurmPlace) -> None:
    job = cluster.job(
        """
        import sys
        loss = 1.0
        for step in range(20):
            loss -= float(sys.argv[2]) * loss
            print(f"step={step} loss={loss:.4f}", flush=True)
        """,
        hyperparameters={"lr": 0.1},
        metrics={"loss": "loss=([0-9.]+)"},
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
    )
    sides = ("--set", "hyperparameters.lr=0.1", "--set", "hyperparameters.lr=0.2")
    said = launch(cluster, "pair", str(job), *sides, "--yes")
    assert "B learns better than A" in said
    assert "USD" not in said


@pytest.mark.timeout(400)
def test_a_rank_that_hangs_is_named_by_the_watchdog(cluster: SlurmPlace) -> None:
    job = cluster.job(
        HANGS,
        distribution={"strategy": "torchrun", "processes_per_host": 2},
        watchdog={"stall": "5s", "first_step": "5m"},
    )
    name = as_json(cluster, str(job), "--detach")["name"]
    cluster.wait_for(name, "rank 2 on algo-2 has not entered all_reduce", 240)
    cluster.backend.stop(name)
    assert cluster.end_of(name).state is JobState.STOPPED
    cause = as_json(cluster, "diagnose", name, code=1)["root_cause"]
    assert cause["code"] == "NCCL004"
    assert "rank 2 on algo-2 has not entered all_reduce" in cause["message"]


def test_what_the_cluster_cannot_give_is_found_before_anything_is_submitted(cluster: SlurmPlace) -> None:
    job = cluster.job("print('trained')", limits={"max_runtime": "2d"})
    found = as_json(cluster, str(job), "--slurm", "trian", "--set", "resources.instance_count=9", code=1)
    said = [each["message"] for each in found["findings"]]
    assert any(re.search(r"no partition trian; did you mean train\?", text) for text in said)
    found = as_json(cluster, str(job), "--set", "resources.instance_count=9", code=1)
    said = " ".join(each["message"] for each in found["findings"])
    assert "gives a job 4 hours at most" in said
    assert "asks for 9 hosts, and 3 nodes of train are such" in said
    assert cluster.slurm.job_ids() == [] or not cluster.backend.job_names()


def test_a_ladder_climbs_from_this_machine_to_the_nodes_and_ends_at_the_first_rung_that_breaks(
    cluster: SlurmPlace,
) -> None:
    job = cluster.job(BREAKS_ON_TWO_HOSTS, backend="sagemaker")
    words = ("--from", "1-here", "--slurm", "train", "--steps", "2")
    result = as_json(cluster, "ladder", str(job), *words, code=1)
    rungs = {each["name"]: each for each in result["rungs"]}
    assert [(each["place"], each["result"], each["usd_at_limit"]) for each in rungs.values()] == [
        ("here", "held", 0.0),
        ("here", "held", 0.0),
        ("slurm", "held", None),
        ("slurm", "broke", None),
    ]
    assert rungs["1-host"]["said"] == "stopped by the ladder after 2 reports of progress"
    assert rungs["2-hosts"]["finding"]["code"] == "CODE001"
    assert "the network between hosts" in result["verdict"]
    assert "--from 2-hosts" in result["next"]
    assert "--set backend=slurm --set slurm.partition=train" in result["next"]
    [one, two] = [rungs[name]["job_name"] for name in ("1-host", "2-hosts")]
    assert cluster.backend.describe(one).state is JobState.STOPPED
    assert sorted(cluster.backend.job_names()) == sorted([one, two])


def test_a_rung_that_the_cluster_cannot_give_is_refused_before_it_is_submitted(cluster: SlurmPlace) -> None:
    hosts = {"instance_type": "ml.m5.xlarge", "instance_count": 9}
    job = cluster.job("print('step=1 loss=1.0')", resources=hosts)
    result = as_json(cluster, "ladder", str(job), "--from", "2-hosts", code=1)
    assert [each["result"] for each in result["rungs"]] == ["held", "refused"]
    assert "asks for 9 hosts, and 3 nodes of train are such" in result["verdict"]


def test_a_machine_without_slurm_says_so(tmp_path: Path) -> None:
    commands = SlurmCommands({"PATH": str(tmp_path)})
    with pytest.raises(BackendError, match="there is no scontrol on this machine"):
        commands.cluster()


def test_a_proof_of_the_network_runs_with_the_section_of_a_job_file(cluster: SlurmPlace) -> None:
    file = cluster.job("raise SystemExit('the proof runs a script of its own')")
    words = ("--hosts", "2", "--up-to", "2MiB", "--storage", "1MiB", "--gbps", "0.001", "--yes")
    proof = as_json(cluster, "proof", str(file), *words)["proof"]
    assert proof["reached"] is True
    assert proof["hosts"] == ["algo-1", "algo-2"]
    assert [point["bytes"] for point in proof["curve"]] == [2**20, 2**21]
    [storage] = proof["storage"]
    assert (storage["what"], storage["error"]) == ("shared folder", None)
    assert set(storage["read_gb_per_s"]) == {"algo-1", "algo-2"}
    too_little = launch(cluster, "proof", str(file), *words[:-2], "100000", "--yes", code=1)
    assert "too little" in too_little
