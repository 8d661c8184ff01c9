"""Checkpoints of runs on a real Slurm that the nodes copy to S3, a moto server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from launcher.backends.interface import BackendError, JobState
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.planning.finished_request import build_resumed_request
from launcher.planning.training_plan import TrainingPlan
from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster, until
from tests.emulator.account import use_test_keys
from tests.wheels import make_python

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

TRAINS = """
    import os, sys, time
    from pathlib import Path
    import torch, slipway

    host, folder = os.environ["SM_CURRENT_HOST"], Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
    print("found", *sorted(each.name for each in folder.glob("notes-*")), flush=True)
    torch.distributed.init_process_group("gloo")
    model = torch.nn.Linear(2, 2)
    checkpoints = slipway.CheckpointManager()
    resumed = checkpoints.resume(model=model)
    print("from step", resumed.step if resumed else 0, flush=True)
    checkpoints.save((resumed.step if resumed else 0) + 5, model=model)
    checkpoints.wait()
    (folder / f"notes-{host}.txt").write_text(host)
    print("saved", flush=True)
    if "WAITS" in os.environ and not resumed:
        time.sleep(600)
"""


class OnS3:
    """A place on the cluster whose runs copy their checkpoints to `s3://bucket/runs/NAME`."""

    def __init__(self, place: SlurmPlace, given: Mapping[str, str]) -> None:
        """`given` is the environment of who launches there."""
        self.place, self.given = place, given
        self.s3 = boto3.client("s3", region_name="us-east-1")
        place.backend = self.backend = SlurmBackend(place.shared / "slipway", SlurmCommands(given))

    def plan(self, **more: Any) -> TrainingPlan:
        checkpoint = {"s3_uri": "s3://bucket/runs", "sync": "slipway", **more.pop("checkpoint", {})}
        distribution = {"strategy": "torchrun", "processes_per_host": 1}
        return self.place.plan(TRAINS, checkpoint=checkpoint, distribution=distribution, **more)

    def names(self, run: str) -> list[str]:
        found = self.s3.list_objects_v2(Bucket="bucket", Prefix=f"runs/{run}/").get("Contents", [])
        return [each["Key"].removeprefix(f"runs/{run}/") for each in found]

    def steps(self, run: str) -> list[int]:
        """The steps of the checkpoints that are whole there."""
        manifests = [name for name in self.names(run) if name.endswith("/manifest.json")]
        return sorted(int(name.split("-")[1]) for name in manifests)


@pytest.fixture
def on_s3(cluster: SlurmPlace, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnS3]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    use_test_keys(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    own = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    try:
        found = OnS3(cluster, {**cluster.slurm.environment, **own})
        found.s3.create_bucket(Bucket="bucket")
        yield found
    finally:
        server.stop()


@pytest.mark.timeout(300)
def test_each_run_has_a_prefix_of_its_own_and_another_one_goes_on_from_it(on_s3: OnS3) -> None:
    name = on_s3.backend.submit(on_s3.plan())
    status = on_s3.place.end_of(name)
    assert (status.state, status.failure_reason) == (JobState.COMPLETED, None)
    assert status.checkpoints == f"s3://bucket/runs/{name}"
    assert on_s3.steps(name) == [5]
    assert {"notes-algo-1.txt", "notes-algo-2.txt"} <= set(on_s3.names(name))
    assert on_s3.backend.has_checkpoint(name)
    again = on_s3.backend.submit(on_s3.plan(name="again", checkpoint={"resume_from": name}))
    assert on_s3.place.end_of(again).state is JobState.COMPLETED
    assert "[rank0]:from step 5" in "\n".join(on_s3.place.texts(again, "algo-1"))
    assert on_s3.steps(again) == [5, 10]
    assert on_s3.steps(name) == [5]


@pytest.mark.timeout(300)
def test_another_cluster_goes_on_from_the_address_of_a_run_that_was_stopped(
    on_s3: OnS3, slurm: MiniCluster, tmp_path: Path
) -> None:
    name = on_s3.backend.submit(on_s3.plan(environment={"WAITS": "1", "GLOO_SOCKET_IFNAME": "lo"}))
    until(lambda: on_s3.steps(name) == [5], 120)
    on_s3.backend.stop(name, "the test")
    assert on_s3.place.end_of(name).state is JobState.STOPPED
    # It has another shared folder, and knows the run by its address alone.
    (tmp_path / "other").mkdir()
    shared = slurm.shared / f"{tmp_path.name}-other"
    shared.mkdir()
    other = OnS3(SlurmPlace(slurm, tmp_path / "other", shared), on_s3.given)
    plan = other.plan(checkpoint={"resume_from": f"s3://bucket/runs/{name}"})
    again = other.backend.submit(plan)
    assert other.place.end_of(again).state is JobState.COMPLETED
    assert "from step 5" in "\n".join(other.place.texts(again, "algo-2"))
    assert other.steps(again) == [5, 10]


@pytest.mark.timeout(300)
def test_a_run_is_resumed_by_its_name(on_s3: OnS3) -> None:
    name = on_s3.backend.submit(on_s3.plan())
    assert on_s3.place.end_of(name).state is JobState.COMPLETED
    request = build_resumed_request(on_s3.backend.request_of(name), name, "digits-again")
    again = on_s3.backend.resume(name, request)
    assert on_s3.place.end_of(again).state is JobState.COMPLETED
    assert on_s3.steps(again) == [5, 10]


@pytest.mark.timeout(300)
def test_a_further_attempt_goes_on_from_what_the_failed_one_left_there(on_s3: OnS3) -> None:
    fails_once = f"""{TRAINS}
    if not resumed and host == "algo-2":
        while not Path({str(on_s3.place.folder / "go")!r}).exists():
            time.sleep(0.1)
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    """
    job = on_s3.place.job(
        fails_once,
        checkpoint={"s3_uri": "s3://bucket/runs", "sync": "slipway"},
        distribution={"strategy": "torchrun", "processes_per_host": 1},
        limits={"max_runtime": "30m", "max_retries": 1},
    )
    environment = {**on_s3.given, "PYTHONPATH": str(Path(__file__).parents[3])}
    environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
    words = [sys.executable, "-m", "launcher.cli.app", str(job), "--output", "json"]
    launched = subprocess.Popen(words, env=environment, cwd=on_s3.place.folder, stdout=subprocess.PIPE)
    (first,) = until(on_s3.backend.job_names, 60)
    until(lambda: on_s3.steps(first) == [5], 120)
    (on_s3.place.folder / "go").touch()
    result = json.loads(launched.communicate(timeout=200)[0])
    assert (result["state"], result["attempts"][0]) == ("Completed", first)
    assert on_s3.steps(result["attempts"][1]) == [5, 10]


def test_what_would_go_on_from_nothing_is_refused_and_leaves_nothing(on_s3: OnS3) -> None:
    with pytest.raises(BackendError, match="there is no checkpoint below s3://bucket/runs/absent"):
        on_s3.backend.submit(on_s3.plan(checkpoint={"resume_from": "s3://bucket/runs/absent"}))
    python = make_python(on_s3.place.folder / "python")
    section = {"partition": "train", "shared": str(on_s3.place.shared), "python": str(python)}
    with pytest.raises(BackendError, match=r"copied to S3 with boto3, and .* does not have it"):
        on_s3.backend.submit(on_s3.plan(slurm=section))
    plain = on_s3.place.plan("print('trained')")
    name = on_s3.backend.submit(plain)
    assert on_s3.place.end_of(name).state is JobState.COMPLETED
    with pytest.raises(BackendError, match=rf"checkpoints of {name} lie on the shared folder, and .* on S3"):
        on_s3.backend.submit(on_s3.plan(checkpoint={"resume_from": name}))
    assert on_s3.backend.job_names() == [name]
