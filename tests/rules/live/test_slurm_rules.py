"""What a job asks of Slurm, held against partitions and nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.slurm_nodes import SlurmCluster, SlurmNode, SlurmPartition
from launcher.failure_modes.model import Severity
from launcher.jobs.job_sections import Slurm
from launcher.rules.live.slurm_rules import AskedNodes, check_nodes

CLUSTER = SlurmCluster(
    (
        SlurmPartition("train", True, "UP", ("g1", "g2", "g3"), max_seconds=4 * 3600, max_nodes=None),
        SlurmPartition("small", False, "UP", ("g1", "c1"), max_nodes=1),
        SlurmPartition("cpus", False, "INACTIVE", ("c1",)),
    ),
    (
        SlurmNode("g1", "IDLE", 96, 1_000_000, 8, ("nvme",)),
        SlurmNode("g2", "MIXED", 96, 1_000_000, 8, ("nvme",)),
        SlurmNode("g3", "DOWN+DRAIN", 96, 1_000_000, 8),
        SlurmNode("c1", "IDLE", 8, 16_000),
    ),
)


def said(cluster: SlurmCluster = CLUSTER, **asks: Any) -> list[tuple[str, str]]:
    """The severity and the message of each finding; `asks` are fields of the section, or of the job."""
    of_job = {name: asks.pop(name) for name in ("hosts", "gpus_each", "seconds", "seen") if name in asks}
    section = Slurm.model_validate({"shared": "/fsx", "python": "/fsx/venv", **asks})
    asked = AskedNodes(
        section,
        of_job.get("hosts", 2),
        of_job.get("gpus_each", 8),
        of_job.get("seconds", 3600),
        of_job.get("seen", True),
    )
    return [(str(each.severity), each.message) for each in check_nodes(asked, cluster)]


def test_what_the_cluster_has_is_not_spoken_of() -> None:
    assert said() == []
    assert said(partition="train", constraint="nvme", memory="500GB", cpus=96) == []


@pytest.mark.parametrize(
    ("asks", "severity", "words"),
    [
        ({"seen": False}, "error", "/fsx is not there on this machine"),
        ({"seen": False, "host": "login"}, "error", "/fsx is not there on login"),
        ({"partition": "trian"}, "error", "no partition trian; did you mean train?"),
        ({"exclude": ["g9"]}, "error", "no node g9"),
        ({"seconds": 5 * 3600}, "error", "gives a job 4 hours at most"),
        ({"partition": "small"}, "error", "gives a job 1 at most"),
        ({"gpus": 16, "gpus_each": 16}, "error", "no node of train has more than 8"),
        ({"hosts": 4}, "error", "4 hosts with 8 GPUs each, and 3 nodes of train are such"),
        ({"hosts": 3}, "warning", "g3 DOWN+DRAIN"),
        ({"exclude": ["g1"]}, "warning", "1 of the 2 nodes"),
        ({"exclude": ["g1", "g2"]}, "error", "and 1 nodes of train are such"),
        ({"constraint": "h100"}, "error", "the feature h100"),
        ({"memory": "2TB"}, "error", "2000 GB of memory"),
        ({"cpus": 200}, "error", "200 CPUs"),
        ({"gpus_each": 0}, "warning", "have GPUs, and the job asks for none"),
        ({"partition": "cpus", "hosts": 1, "gpus_each": 0}, "warning", "is INACTIVE"),
    ],
)
def test_what_keeps_a_job_from_starting_is_found(asks: dict[str, Any], severity: str, words: str) -> None:
    found = said(**asks)
    assert [each for each, message in found if words in message] == [severity], found


def test_a_constraint_of_several_features_is_left_to_slurm() -> None:
    assert said(constraint="nvme&h100") == []


def test_without_a_default_partition_one_is_to_be_named() -> None:
    cluster = replace(
        CLUSTER, partitions=tuple(replace(each, is_default=False) for each in CLUSTER.partitions)
    )
    ((severity, message),) = said(cluster)
    assert severity == str(Severity.ERROR)
    assert "names none" in message
