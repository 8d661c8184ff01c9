"""`launch proof`: a real run here, emulated jobs on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.experiments.proof import bar
from launcher.experiments.fabric_proof import RECORD_MARK
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training
from tests.experiments.test_fabric_proof import record_line


def test_hosts_on_this_machine_are_measured_together_and_in_pairs(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_launch(
        *("proof", "--local", "--hosts", "3", "--up-to", "2MiB", "--storage", "1MiB"),
        *("--gbps", "100000", "--yes", "--output", "json"),
    )
    document = json.loads(out)
    proof = document["proof"]
    assert code == 1
    assert document["state"] == "Completed"
    assert proof["reached"] is False
    assert proof["limit_gb_per_s"] == 12500
    assert proof["hosts"] == ["algo-1", "algo-2", "algo-3"]
    assert [point["bytes"] for point in proof["curve"]] == [2**20, 2**21]
    assert [pair["hosts"] for pair in proof["pairs"]] == [
        ["algo-1", "algo-2"],
        ["algo-1", "algo-3"],
        ["algo-2", "algo-3"],
    ]
    [storage] = proof["storage"]
    assert storage["error"] is None
    assert set(storage["write_gb_per_s"]) == set(storage["read_gb_per_s"]) == set(proof["hosts"])
    folder = tmp_path / ".slipway" / "local" / document["name"]
    assert len(list(folder.rglob("proof.json"))) == 1
    assert not list(folder.rglob(".slipway-proof-*"))


@pytest.fixture
def measured(cloud: EmulatedAccount) -> Iterator[TrainingScript]:
    with emulated_training(TrainingScript()) as script:
        yield script


P4D = {
    "instance_type": "ml.p4d.24xlarge",
    "gbps": 400.0,
    "curve": [[2**20, 0.0003, 6.4], [2**30, 0.034, 60.1]],
}


def prints(script: TrainingScript, **changes: Any) -> None:
    script.logs = {"algo-1": ["1 MiB  0.1 ms  16 GB/s", record_line(**changes)]}


IMAGE = ("--set", "framework.version=2.8.0")
"""One that the emulated registry has."""


def words_of(request: dict[str, Any]) -> list[str]:
    words: list[str] = request["AlgorithmSpecification"]["ContainerArguments"]
    return words[words.index("--") + 1 :]


def test_a_cluster_is_measured_by_one_job_and_judged_by_its_type(
    run_launch: RunLaunch, measured: TrainingScript
) -> None:
    prints(measured, **P4D)
    code, out, _ = run_launch("proof", "--cluster", "dev", "--type", "ml.p4d.24xlarge", *IMAGE, "--yes")
    [request] = measured.requests
    words = words_of(request)
    assert code == 0
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 1800
    assert {"--gbps=400", "--pairs-below=46.875", "--checkpoints"} <= set(words)
    assert "60.1 GB/s" in out
    assert "1 MiB  0.1 ms" in out
    assert RECORD_MARK not in out
    assert "64 % of the 93.8 GB/s that interfaces of 400 Gbit/s a host allow: enough" in out
    assert "57.2 GB/s" in out
    assert "https://github.com/NVIDIA/nccl/issues/527" in out


def test_a_network_that_gives_too_little_ends_with_1_and_names_the_host(
    run_launch: RunLaunch, measured: TrainingScript
) -> None:
    prints(
        measured,
        **P4D
        | {
            "hosts": ["algo-1", "algo-2", "algo-3"],
            "ranks": 24,
            "curve": [[2**30, 0.02, 9.0]],
            "pair_bytes": 2**28,
            "pairs": [[0, 1, 9.5], [0, 2, 62.0], [1, 2, 9.2]],
        },
    )
    code, out, _ = run_launch(
        *("proof", "--cluster", "dev"),
        *("--type", "ml.p4d.24xlarge", "--hosts", "3", *IMAGE, "--yes", "--output", "json"),
    )
    proof = json.loads(out)["proof"]
    assert code == 1
    assert "--pairs-below=25" in words_of(measured.requests[0])
    assert (proof["reached"], proof["slow_hosts"]) == (False, ["algo-2"])
    assert "algo-2 is slow" in proof["says"][1]


def test_a_job_that_fails_is_diagnosed_and_nothing_is_judged(
    run_launch: RunLaunch, measured: TrainingScript
) -> None:
    measured.failure_reason = "AlgorithmError: NCCL002 rank 8 on algo-2: no route, exit code: 1"
    code, out, _ = run_launch(
        "proof", "--cluster", "dev", "--type", "ml.p4d.24xlarge", *IMAGE, "--yes", "--output", "json"
    )
    document = json.loads(out)
    assert code == 1
    assert document["failure"]["code"] == "NCCL002"
    assert document["proof"] is None


def test_a_job_that_ends_without_a_record_is_told(run_launch: RunLaunch, measured: TrainingScript) -> None:
    code, _, err = run_launch("proof", "--cluster", "dev", "--type", "ml.p4d.24xlarge", *IMAGE, "--yes")
    assert code == 2
    assert "without a record of what it measured" in err


def test_a_job_file_gives_its_hosts_and_settings(
    run_launch: RunLaunch, write_job: WriteJob, measured: TrainingScript
) -> None:
    prints(measured)
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": 4, "keep_alive": "30m"}
    file = write_job(cluster="dev", resources=resources, environment={"NCCL_DEBUG": "INFO"})
    run_launch("proof", file, "--yes", "--output", "json")
    [request] = measured.requests
    assert request["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"
    assert request["ResourceConfig"]["InstanceCount"] == 4
    assert "KeepAlivePeriodInSeconds" not in request["ResourceConfig"]
    assert request["Environment"]["NCCL_DEBUG"] == "INFO"
    assert "--pairs-below=25" in words_of(request)


def test_lustre_is_measured_where_it_is_asked_for(run_launch: RunLaunch, measured: TrainingScript) -> None:
    prints(measured, **P4D)
    words = ("proof", "--cluster", "dev", "--type", "ml.p4d.24xlarge", *IMAGE)
    _, out, err = run_launch(*words, "--lustre", "/", "--yes", "--output", "json")
    assert measured.requests, out + err
    [request] = measured.requests
    [channel] = [each for each in request["InputDataConfig"] if each["ChannelName"] == "lustre"]
    assert channel["DataSource"]["FileSystemDataSource"]["FileSystemAccessMode"] == "rw"
    assert "--folder=Lustre=${SM_CHANNEL_LUSTRE}" in words_of(request)


def test_hosts_that_are_cut_off_from_aws_upload_nothing(
    run_launch: RunLaunch, write_job: WriteJob, measured: TrainingScript
) -> None:
    prints(measured, **P4D)
    file = write_job(cluster="dev", network={"isolation": True})
    run_launch("proof", file, "--yes", "--output", "json")
    [request] = measured.requests
    assert "--checkpoints" not in words_of(request)


def test_a_job_file_that_is_missing_or_broken_is_refused(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    code, _, err = run_launch("proof", tmp_path / "nowhere.yaml")
    assert (code, "there is no job file" in err) == (2, True)
    code, _, err = run_launch("proof", write_job(resources={"instance_type": "ml.p4d.24xlarge", "hosts": 3}))
    assert code == 2
    assert "has errors" in err
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [")
    code, _, err = run_launch("proof", broken)
    assert code == 2
    assert "fault of the launcher" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "dev"], "which hosts are to be measured is not said"),
        (["--type", "ml.p5.48xlarg"], "Did you mean ml.p5.48xlarge"),
        (["--type", "ml.trn1.32xlarge"], "nccom-test"),
        (["--type", "ml.p5.48xlarge", "--hosts", "1"], "no network between hosts"),
        (["--type", "ml.p5.48xlarge", "--up-to", "much"], "--up-to much"),
        (["--type", "ml.p5.48xlarge", "--at-least", "50"], "is no share of the limit"),
        (["--type", "ml.p5.48xlarge", "--set", "resources.instance_count=4"], "Use --hosts"),
        (["--local", "--slurm"], "Leave out one of the two"),
    ],
    ids=lambda value: "" if isinstance(value, list) else value,
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(
    run_launch: RunLaunch, words: list[str], said: str
) -> None:
    code, out, err = run_launch("proof", *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in out + err


def test_a_bar_is_as_long_as_the_share_and_no_longer_than_the_limit() -> None:
    assert [len(bar(share)) for share in (0.0, 0.5, 1.0, 1.7)] == [0, 12, 24, 24]
    assert bar(0.01) == "▎"
