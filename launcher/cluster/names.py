"""Names: of regions and zones, stacks, folders, tags, jobs and secrets, what other services of AWS call
SageMaker and its hosts, and the digest by which a package of the controller's function is known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

from launcher.facts import Provenance

REGION: Final = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$"
"""The form of a region's name: us-west-2, us-gov-west-1, eusc-de-east-1."""

PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=180,
    source="CloudFormation's registry, as cfn-lint keeps it",
    packages={"cfn-lint": "1.58.0"},
)

WITHOUT_BUDGETS: Final = frozenset(
    {
        *("af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-3", "ap-south-2", "ap-southeast-3"),
        *("ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7", "ca-west-1"),
        *("eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2", "il-central-1", "me-central-1"),
        *("mx-central-1", "us-gov-east-1", "us-gov-west-1"),
    }
)
"""Regions where CloudFormation has no AWS::Budgets::Budget (its registry, as cfn-lint 1.58 keeps it)."""

WITHOUT_FSX: Final = frozenset({"ap-southeast-6"})
"""Regions where CloudFormation has no AWS::FSx::FileSystem (the same source)."""

WITHOUT_HYPERPOD: Final = frozenset(
    {
        *("af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-3", "ap-southeast-5", "ap-southeast-6"),
        *("ap-southeast-7", "ca-west-1", "cn-north-1", "cn-northwest-1", "eu-central-2", "eu-south-1"),
        *("eu-west-3", "il-central-1", "me-central-1", "mx-central-1", "us-gov-east-1", "us-gov-west-1"),
    }
)
"""Regions where CloudFormation has no AWS::SageMaker::Cluster (the same source)."""


_DIRECTIONS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c"}


def check_zones(zones: Sequence[str], region: str) -> None:
    """Refuse zones that are not all names, or all ids, of different zones of the region."""
    # Here: it needs pydantic, which commands that read no cluster file do not import.
    from launcher.documents import refuse

    name = re.compile(rf"{re.escape(region)}[a-z]")
    # The ids of the sovereign cloud's zones are not published.
    prefix = zone_id_prefix(region) if not region.startswith("eusc-") else "[a-z0-9]+"
    identifier = re.compile(rf"{prefix}-az[0-9]+")
    ids = f", their ids {prefix}-az1" if prefix.isalnum() else ""
    remedy = f"Zones of {region} are called {region}a{ids}, and so on."
    for position, zone in enumerate(zones):
        if not (name.fullmatch(zone) or identifier.fullmatch(zone)):
            refuse(f"{zone!r} is not a zone of {region}", remedy=remedy)
        if zone in zones[:position]:
            refuse(f"{zone!r} is there twice", remedy="A zone has one subnet: name each once.")
    if len({bool(name.fullmatch(zone)) for zone in zones}) > 1:
        refuse(
            "names and ids are mixed, so two of them may be the same zone",
            remedy="Which name goes with which id differs by account: use one kind only.",
        )


def is_zone_id(zone: str) -> bool:
    """Whether a zone is given by its id, such as usw2-az1, and not by its name."""
    return "-az" in zone


def zone_id_prefix(region: str) -> str:
    """The first part of a region's zone ids: `usw2` of us-west-2, `apse1` of ap-southeast-1."""
    area, *words, number = region.split("-")
    for word, letter in _DIRECTIONS.items():
        words = [part.replace(word, letter) for part in words]
    return area + "".join("g" if part == "gov" else part for part in words) + number


CLUSTER_NAME = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"
"""How a cluster may be called, as a regular expression."""

PARTS = ("network", "storage", "queue", "hyperpod", "access", "observability", "managed", "manifest")
"""What a cluster's stacks hold, in the order of their deployment; they are deleted in the reverse order."""

ALWAYS_THERE = frozenset({"network", "storage", "access", "manifest"})
"""The parts that no cluster is without."""


def stack_name(cluster: str, part: str) -> str:
    """The name of the stack that holds a part of a cluster."""
    return f"slipway-{cluster}-{part}"


def manifest_parameter_name(cluster_name: str) -> str:
    """The SSM parameter that holds the manifest of a cluster."""
    return f"/slipway/clusters/{cluster_name}"


HYPERPOD_MOUNT: Final = "/fsx"
"""Where every node of a HyperPod cluster has the Lustre file system."""

HYPERPOD_SHARED: Final = f"{HYPERPOD_MOUNT}/jobs"
"""The folder on it that `hyperpod_node.sh` makes, in which everybody may make runs."""

HYPERPOD_USER: Final = "ubuntu"
"""The user of HyperPod's image, as whom people log in."""


def hyperpod_name(cluster: str) -> str:
    """What the HyperPod cluster of a cluster is called in SageMaker."""
    return f"slipway-{cluster}"


CLUSTER_TAG: Final = "slipway:cluster"
"""The tag with the cluster's name, on all that was provisioned for it and on every job that runs on it."""

CODE_FOLDER: Final = "code"
"""Below it lies a job's code in its bucket, in a folder that is named by the code's digest."""

RUNS_FOLDER: Final = "runs"
"""Below it lie, in the same bucket, the runs that were handed over to the controller; no job reads them."""

MAX_NAME_LENGTH: Final = 45
"""Characters of a job's `name`: the 63 of a training job's (SageMaker API, TrainingJobName) less the 18 of
the unique part."""


SECRET_ID: Final = (
    r"^([A-Za-z0-9/_+=.@-]{1,512}"
    r"|arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}-[A-Za-z0-9]{6})$"
)
"""A secret's name, or its ARN, which ends in a hyphen and six characters that Secrets Manager chose (Secrets
Manager API reference, CreateSecret)."""

_CHOSEN_BY_THE_SERVICE = len("-AbCdEf")


def is_arn(secret: str) -> bool:
    """Whether a secret is named by its ARN."""
    return secret.startswith("arn:")


def secret_name(secret: str) -> str:
    """The name of a secret, whichever way it is named."""
    return secret.rpartition(":")[2][:-_CHOSEN_BY_THE_SERVICE] if is_arn(secret) else secret


def names_the_same(one: str, other: str) -> bool:
    """Whether two ways of naming a secret may mean the same one: of a name alone nobody knows the region."""
    if is_arn(one) and is_arn(other):
        return one == other
    return secret_name(one) == secret_name(other)


SAGEMAKER_PRINCIPAL: Final = "sagemaker.amazonaws.com"
"""Whom an execution role trusts and is passed to (SageMaker developer guide, sagemaker-roles)."""

TRAINING_LOGS: Final = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs, and the namespace of their metrics in CloudWatch (SageMaker
developer guide, logging-cloudwatch and training-metrics)."""

TRAINING_IN_BATCH: Final = "SAGEMAKER_TRAINING"
"""The type of queues, service environments and service jobs of AWS Batch that are about training jobs
(Batch API, CreateJobQueue)."""

ECR_LAYERS: Final = "prod-{region}-starport-layer-bucket"
"""The bucket of AWS's in which ECR keeps the layers of images (ECR user guide, vpc-endpoints)."""

SHELL_ACTIONS: Final = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)
"""What an execution role needs to let a shell into the containers (SageMaker developer guide,
train-remote-debugging)."""

HOST_NAME: Final = re.compile(r"algo-(\d+)")
"""A host's name, with its number."""


def host_name(number: int | str) -> str:
    """A host's name by its number, counted from 1: `algo-1` (SageMaker developer guide,
    your-algorithms-training-algo-running-container)."""
    return f"algo-{number}"


def host_in(path: str) -> str | None:
    """The host that a path or the name of a stream has in it, such as `algo-2`; the last one counts."""
    numbers = HOST_NAME.findall(path)
    return host_name(str(numbers[-1])) if numbers else None


BYTECODE_FOLDER = "__pycache__"
"""Where Python keeps what it has compiled (PEP 3147), which no digest counts."""


def digest_of(folder: Path) -> str:
    """The SHA-256 of all files below a folder, by their names and contents, in hexadecimal digits.

    Bytecode is left out: two compilations of the same source may differ. Raises OSError where a file cannot
    be read.
    """
    digest = hashlib.sha256()
    for name, file in sorted((each.relative_to(folder).as_posix(), each) for each in folder.rglob("*")):
        if BYTECODE_FOLDER in file.parts or not file.is_file():
            continue
        content = file.read_bytes()
        # With its length, so that no content can go on as another file's name.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
