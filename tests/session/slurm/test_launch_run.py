"""Which way a launch on Slurm takes: this machine's own commands, a host of ssh's, or a HyperPod cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto import mock_aws

from launcher.failure_modes.model import Refusal
from launcher.jobs.load_job import LoadedJob, load_job
from launcher.session.slurm.launch_run import SlurmLaunch, find_hyperpod
from tests.emulator.account import use_test_keys
from tests.session.deployed import REGION, client

MANIFEST: dict[str, Any] = {
    "name": "dev",
    "region": REGION,
    "vpc_id": "vpc-1",
    "subnets": [{"id": "subnet-1", "availability_zone": "us-west-2a"}],
    "security_group_ids": ["sg-1"],
    "role_arn": "arn:aws:iam::123456789012:role/dev",
    "buckets": {"code": "code", "checkpoints": "checkpoints", "output": "output"},
}
HYPERPOD = {
    "cluster_arn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcd1234efgh",
    "entry_group": "doors",
}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    use_test_keys(monkeypatch, REGION)
    monkeypatch.setenv("PATH", str(tmp_path))  # without sbatch
    with mock_aws():
        yield


def provision(**more: Any) -> None:
    client("ssm").put_parameter(
        Name="/slipway/clusters/dev", Value=json.dumps({**MANIFEST, **more}), Type="String"
    )


def job(folder: Path, **more: Any) -> LoadedJob:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')")
    data = {
        "name": "digits",
        "cluster": "dev",
        "code": {"source_dir": "src", "entry_point": "train.py"},
        "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
        "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 1},
        "distribution": {"strategy": "none"},
        "backend": "slurm",
        "slurm": {"python": "/fsx/ubuntu/venv"},
        **more,
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(data))
    return load_job(file)


def host_of(loaded: LoadedJob) -> str | None:
    return SlurmLaunch(loaded, REGION)._host


def test_the_cluster_of_the_job_leads_to_its_hyperpod(account: None, tmp_path: Path) -> None:
    provision(hyperpod=HYPERPOD)
    loaded = job(tmp_path)

    assert host_of(loaded) == "hyperpod/dev/us-west-2/abcd1234efgh/doors"
    assert loaded.spec is not None and loaded.spec.slurm is not None
    assert loaded.spec.slurm.shared == "/fsx/jobs"


def test_a_manifest_s_file_will_do(account: None, tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps({**MANIFEST, "hyperpod": HYPERPOD}))

    assert host_of(job(tmp_path, cluster="./dev.json")) == "hyperpod/dev/us-west-2/abcd1234efgh/doors"


@pytest.mark.parametrize(
    "hostile",
    [
        {"region": "us-west-2; touch /tmp/x"},
        {"name": "-oProxyCommand=reboot"},
        {"hyperpod": {**HYPERPOD, "entry_group": "doors$(reboot)"}},
        {"hyperpod": {**HYPERPOD, "cluster_arn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/a b"}},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_manifest_s_file_gives_no_words_to_a_shell(hostile: Any, tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps({**MANIFEST, "hyperpod": HYPERPOD, **hostile}))

    with pytest.raises(Refusal, match="names its HyperPod cluster as AWS names none"):
        find_hyperpod("./dev.json", job(tmp_path), REGION)


def test_a_host_that_is_given_and_sbatch_here_come_first(account: None, tmp_path: Path) -> None:
    section = {"host": "login", "shared": "/fsx", "python": "/fsx/venv"}
    assert host_of(job(tmp_path, slurm=section)) == "login"

    (tmp_path / "sbatch").write_text("#!/bin/sh")
    (tmp_path / "sbatch").chmod(0o755)
    assert host_of(job(tmp_path)) is None


def test_a_cluster_without_hyperpod_is_refused_with_what_to_do(account: None, tmp_path: Path) -> None:
    provision()

    with pytest.raises(Refusal, match="the cluster dev has no HyperPod cluster") as refusal:
        find_hyperpod("dev", job(tmp_path), REGION)

    assert "add `hyperpod` to the cluster file" in refusal.value.remedy


def test_without_a_cluster_the_shared_folder_must_be_given(tmp_path: Path) -> None:
    loaded = job(tmp_path, cluster=None)

    assert loaded.spec is None
    assert "`slurm.shared` does not say in which folder" in " ".join(each.message for each in loaded.findings)
