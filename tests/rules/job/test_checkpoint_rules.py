"""Checkpoints (CKPT001, CKPT002, CKPT006), Lustre (FSX002, FSX003), and Debugger.

Debugger beside the distributed libraries: DBG001 to DBG003; in a tuning job: SPEC003.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.job.tuning_job import TUNING

S3 = {"s3_uri": "s3://mine/runs"}
SPOT = {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"model": {"parameters": 10e9}}, None, id="ten billion"),
        pytest.param({"model": {"parameters": 10e9 + 1}}, "warning", id="one more"),
        pytest.param({"model": {"parameters": 70e9}, "checkpoint": S3}, "warning", id="to S3"),
        pytest.param(
            {"model": {"parameters": 70e9}, "checkpoint": {"lustre": "/checkpoints"}}, None, id="to Lustre"
        ),
        pytest.param(
            {"model": {"parameters": 70e9}, "inputs": {"c": {"lustre": "/c", "access": "rw"}}},
            None,
            id="to a writable mount of Lustre",
        ),
        pytest.param(
            {"model": {"parameters": 70e9}, "inputs": {"c": {"lustre": "/c"}}}, "warning", id="read only"
        ),
        pytest.param({"checkpoint": S3}, None, id="size unknown"),
    ],
)
def test_large_models_want_lustre(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("CKPT002", **job) == found


def test_the_size_of_the_checkpoint_is_told(judge) -> None:
    (finding,) = judge("CKPT002", model={"parameters": 70e9})
    assert "70 billion parameters make a checkpoint of 840 to 1,120 GB" in finding.message


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        pytest.param({"resources": SPOT}, ["resources.capacity"], id="spot"),
        pytest.param({"limits": {"max_retries": 1}}, ["limits.max_retries"], id="retries"),
        pytest.param({"limits": {"max_retries": 0}}, [], id="no retries"),
        pytest.param(
            {"resources": SPOT, "limits": {"max_retries": 3}},
            ["resources.capacity", "limits.max_retries"],
            id="both",
        ),
        pytest.param({"resources": SPOT, "checkpoint": S3}, [], id="spot with a checkpoint"),
        pytest.param({"resources": SPOT, "cluster": "dev"}, [], id="a cluster has checkpoints"),
        pytest.param(
            {"resources": SPOT, "inputs": {"c": {"lustre": "/c", "access": "rw"}}}, [], id="Lustre keeps them"
        ),
        pytest.param({}, [], id="nothing starts again"),
    ],
)
def test_what_starts_again_has_a_checkpoint(judge, job: dict, fields: list[str]) -> None:
    assert [finding.subject for finding in judge("CKPT006", **job)] == fields


@pytest.mark.parametrize(
    ("strategy", "options", "found"),
    [
        pytest.param("torchrun", {}, None, id="the boot makes it"),
        pytest.param("smp", {"version": 2}, None, id="the boot again"),
        pytest.param("smp", {"version": 1}, "warning", id="smp 1 has the toolkit"),
        pytest.param("mpi", {}, "warning", id="the toolkit makes none"),
    ],
)
def test_the_directory_on_lustre_is_made_by_somebody(
    severity_of, strategy: str, options: dict, found: str | None
) -> None:
    distribution = {"strategy": strategy, "options": options}
    assert severity_of("SPEC003", distribution=distribution, checkpoint={"lustre": "/c"}) == found
    assert severity_of("SPEC003", distribution=distribution, checkpoint=S3) is None


@pytest.mark.parametrize(
    ("checkpoint", "found"),
    [
        pytest.param({"lustre": "/c"}, None, id="the file system keeps them"),
        pytest.param({"s3_uri": "s3://mine/c", "sync": "slipway"}, None, id="the boot's work"),
        pytest.param({"s3_uri": "s3://mine/c"}, None, id="the service's work"),
    ],
)
def test_ways_of_checkpointing(severity_of, checkpoint: dict, found: str | None) -> None:
    assert severity_of("SPEC003", checkpoint=checkpoint) == found


def test_where_the_toolkit_starts_the_ranks_nobody_but_the_script_uploads(severity_of) -> None:
    checkpoint = {"s3_uri": "s3://mine/c", "sync": "slipway"}
    assert severity_of("SPEC003", distribution={"strategy": "smddp"}, checkpoint=checkpoint) == "warning"


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"checkpoint": {"s3_uri": "s3://mine/c"}}, "error", id="one prefix for all"),
        pytest.param({"checkpoint": {"lustre": "/c"}}, "error", id="one directory for all"),
        pytest.param({"cluster": "dev"}, "info", id="the cluster's default is off"),
        pytest.param({}, None, id="no checkpoints"),
    ],
)
def test_training_jobs_of_a_tuning_job_share_no_checkpoints(
    severity_of, job: dict[str, Any], found: str | None
) -> None:
    assert severity_of("CKPT001", tuning=TUNING, **job) == found
    assert severity_of("CKPT001", **job) is None


def test_how_many_would_share_them_is_told(judge) -> None:
    (finding,) = judge("CKPT001", tuning=TUNING, checkpoint={"s3_uri": "s3://mine/c"})
    assert "all 20 training jobs would have one prefix" in finding.message
    assert finding.subject == "checkpoint"


def test_spot_without_checkpoints_is_told_also_on_a_cluster(severity_of) -> None:
    job = {"cluster": "dev", "resources": {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}}
    assert severity_of("CKPT006", tuning=TUNING, **job) == "warning"
    assert severity_of("CKPT006", **job) is None


HERE, THERE = "subnet-0123456789abcdef0", "subnet-0000000000000000b"
INPUT = {"corpus": {"lustre": "/train"}}


@pytest.fixture
def two_zones(manifest: dict) -> dict:
    manifest["subnets"].append({"id": THERE, "availability_zone": "us-west-2b"})
    return manifest


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"network": {"subnets": [HERE]}, "inputs": INPUT}, None, id="its own subnet"),
        pytest.param({"network": {"subnets": [THERE]}, "inputs": INPUT}, "error", id="the other zone"),
        pytest.param({"network": {"subnets": [HERE, THERE]}, "inputs": INPUT}, "error", id="either zone"),
        pytest.param({"inputs": INPUT}, None, id="left to the plan"),
        pytest.param({"network": {"subnets": ["subnet-1"]}, "inputs": INPUT}, None, id="an unknown zone"),
        pytest.param({"network": {"subnets": [THERE]}}, None, id="no use of the file system"),
        pytest.param(
            {"network": {"subnets": [THERE]}, "checkpoint": {"lustre": "/c"}}, "error", id="for checkpoints"
        ),
    ],
)
def test_file_system_and_job_share_a_zone(severity_of, two_zones: dict, job: dict, found: str | None) -> None:
    assert severity_of("FSX002", manifest=two_zones, **job) == found


def test_the_zones_are_told_and_the_subnet_that_fits(judge, two_zones: dict) -> None:
    (finding,) = judge("FSX002", manifest=two_zones, network={"subnets": [THERE]}, inputs=INPUT)
    assert f"{THERE} in us-west-2b" in finding.message
    assert "us-west-2a" in finding.message
    assert HERE in finding.remedy


def test_a_cluster_without_a_subnet_in_the_zone_of_its_file_system_is_refused(
    severity_of, manifest: dict
) -> None:
    manifest["subnets"] = [{"id": THERE, "availability_zone": "us-west-2b"}]
    assert severity_of("FSX002", manifest=manifest, inputs=INPUT) == "error"


def test_without_a_manifest_nothing_is_known_of_zones(severity_of) -> None:
    assert severity_of("FSX002", cluster="dev", inputs=INPUT) is None


def test_several_subnets_of_unknown_zones_are_told(severity_of) -> None:
    both = {"subnets": [HERE, THERE], "security_group_ids": ["sg-0123456789abcdef0"]}
    assert severity_of("FSX002", cluster="dev", inputs=INPUT, network=both) == "info"
    assert severity_of("FSX002", cluster="dev", network=both) is None
    assert severity_of("FSX002", cluster="dev", inputs=INPUT, network={**both, "subnets": [HERE]}) is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("/train", None, id="below the mount"),
        pytest.param("/", None, id="the mount itself"),
        pytest.param("/abcdefgh/train", "warning", id="the mount name twice"),
        pytest.param("/opt/ml/input/data/train", "warning", id="a folder of the container"),
        pytest.param("/fs-0123456789abcdef0/train", "warning", id="the file system's id"),
        pytest.param("/abcdefghi/train", None, id="a name that only begins alike"),
        pytest.param("/train/../../other", "error", id="out of the mount"),
        pytest.param("/train..old", None, id="dots in a name"),
    ],
)
def test_paths_are_below_the_mount(severity_of, manifest: dict, path: str, found: str | None) -> None:
    assert severity_of("FSX003", manifest=manifest, inputs={"corpus": {"lustre": path}}) == found


ONE_HOST = {"instance_type": "ml.p4d.24xlarge"}
TWO_HOSTS = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
SLIPWAY = {**S3, "sync": "slipway"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"checkpoint": S3}, "info", id="not asked for: off, and said"),
        pytest.param({"checkpoint": S3, "debugger": True}, "warning", id="asked for: off, with a warning"),
        pytest.param({"cluster": "dev", "debugger": True}, "warning", id="a cluster has checkpoints too"),
        pytest.param({"checkpoint": SLIPWAY, "debugger": True}, None, id="kept with the container's sync"),
        pytest.param({"debugger": True}, None, id="kept without checkpoints"),
        pytest.param(
            {"checkpoint": S3, "debugger": True, "distribution": {"strategy": "torchrun"}},
            "warning",
            id="off for every distribution",
        ),
        pytest.param(
            {"checkpoint": S3, "distribution": {"strategy": "torchrun"}},
            None,
            id="not worth a word where nobody asked for it",
        ),
        pytest.param(
            {
                "checkpoint": S3,
                "debugger": True,
                "distribution": {"strategy": "none"},
                "resources": TWO_HOSTS,
            },
            "warning",
            id="off on several hosts",
        ),
        pytest.param(
            {
                "checkpoint": S3,
                "debugger": True,
                "distribution": {"strategy": "none"},
                "resources": ONE_HOST,
            },
            None,
            id="kept by one process alone",
        ),
    ],
)
def test_debugger_with_checkpoints(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("DBG001", **{"distribution": {"strategy": "smddp"}, **job}) == found


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({}, "info", id="not asked for: off, and said"),
        pytest.param({"debugger": True}, "warning", id="asked for: off, with a warning"),
        pytest.param(
            {"debugger": True, "checkpoint": SLIPWAY}, "warning", id="no way of checkpointing helps"
        ),
        pytest.param({"debugger": True, "distribution": {"strategy": "torchrun"}}, None, id="no library"),
    ],
)
def test_debugger_with_smp(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("DBG002", **{"distribution": {"strategy": "smp"}, **job}) == found


def test_who_turns_debugger_on_is_told_that_aws_has_closed_it(judge) -> None:
    (found,) = judge("DBG003", debugger=True)
    assert (found.severity, found.path) == ("info", ("debugger",))
    assert "2026-07-30" in found.message
    assert judge("DBG003") == []


@pytest.mark.parametrize("off_beside", [{"checkpoint": S3}, {"distribution": {"strategy": "smp"}}])
def test_what_is_off_anyway_needs_no_word_on_its_closing(severity_of, off_beside: dict) -> None:
    assert severity_of("DBG003", debugger=True, **off_beside) is None


def test_in_a_region_without_debugger_it_is_off_with_a_warning(judge) -> None:
    (found,) = judge("DBG003", debugger=True, region="me-central-1")
    assert found.severity == "warning"
    assert "me-central-1" in found.message
    assert judge("DBG003", region="me-central-1") == []


def test_debugger_is_not_followed_in_a_tuning_job(severity_of) -> None:
    assert severity_of("SPEC003", tuning=TUNING, debugger=True) == "warning"
    assert severity_of("SPEC003", debugger=True) is None


SHARED = "/opt/ml/input/data/shared"
SAVES = {"src/train.py": "torch.save(state, path)\n"}
UPLOADS = {"src/train.py": "s3.upload_file('/tmp/last.pt', bucket, key)\n"}
ON_LUSTRE = {"inputs": {"shared": {"lustre": "/shared", "access": "rw"}}, "cluster": "dev"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        ({"hyperparameters": {"checkpoint_dir": f"{SHARED}/gpt"}, "files": SAVES, **ON_LUSTRE}, "info"),
        (
            {"hyperparameters": {"save": "x", "output-dir": f"{SHARED}/gpt"}, "files": SAVES, **ON_LUSTRE},
            "info",
        ),
        ({"environment": {"CKPT_DIR": "${SM_CHANNEL_SHARED}/gpt"}, "files": SAVES, **ON_LUSTRE}, "info"),
        ({"hyperparameters": {"load_checkpoint": f"{SHARED}/gpt"}, "files": SAVES, **ON_LUSTRE}, None),
        ({"hyperparameters": {"data_dir": f"{SHARED}/pile"}, "files": SAVES, **ON_LUSTRE}, None),
        ({"hyperparameters": {"checkpoint_dir": "/opt/ml/checkpoints"}, "files": SAVES, **ON_LUSTRE}, None),
        (
            {
                "hyperparameters": {"checkpoint_dir": f"{SHARED}/gpt"},
                "files": {"src/train.py": "torch.save(s, d + os.environ['TRAINING_JOB_NAME'])\n"},
                **ON_LUSTRE,
            },
            None,
        ),
        (
            {
                "files": {"src/train.py": f"import torch\ntorch.save(state, '{SHARED}/ckpt/last.pt')\n"},
                **ON_LUSTRE,
            },
            "info",
        ),
        ({"environment": {"CHECKPOINT_S3": "s3://acme/checkpoints"}, "files": UPLOADS}, "info"),
        ({"environment": {"CHECKPOINT_S3": "s3://acme/checkpoints"}, "files": {"src/train.py": "1\n"}}, None),
        ({"environment": {"PRETRAINED_CHECKPOINT": "s3://acme/base"}, "files": UPLOADS}, None),
        (
            {
                "files": {"src/train.py": "s3.upload_file('/tmp/last.pt', 'acme', 'checkpoints/last.pt')\n"},
            },
            "info",
        ),
        (
            {
                "environment": {"CHECKPOINT_S3": "s3://acme/checkpoints"},
                "files": UPLOADS,
                "tuning": TUNING,
                "cluster": None,
            },
            "warning",
        ),
    ],
)
def test_places_that_all_jobs_of_a_file_share(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("CKPT001", **job) == found
