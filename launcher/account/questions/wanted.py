"""What a job names in the account: all that must be looked at before it is submitted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.account.prefixes import split_uri

_CODE_CHANNEL = "code"
"""The channel that the launcher itself fills, at the submission; jobs may not have one of that name."""

_SUBMITTED = "sagemaker_submit_directory"
_CONTAINER_CHECKPOINTS = "SLIPWAY_CHECKPOINT_URI"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one job names, from its CreateTrainingJob request.

    `reads` and `writes` are the S3 URIs that the job's role reads and writes, `looked_into` those that
    should hold something, or nothing, before it starts: the inputs and the checkpoints, not the code
    that is not yet uploaded. `image` is None where an algorithm is named instead.
    """

    region: str
    job_name: str
    role_arn: str
    instance_type: str
    instance_count: int
    spot: bool
    warm_pool: bool
    training_plan: bool
    image: str | None
    subnet_ids: tuple[str, ...]
    group_ids: tuple[str, ...]
    file_system_id: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    looked_into: tuple[str, ...]
    output_keys: tuple[str, ...]
    volume_keys: tuple[str, ...]

    @property
    def buckets(self) -> tuple[str, ...]:
        """The names of all buckets that the job names."""
        return _unique(split_uri(uri)[0] for uri in (*self.reads, *self.writes))

    @property
    def partition(self) -> str:
        """The part of AWS that the role's ARN names, such as `aws` or `aws-cn`."""
        return self.role_arn.split(":")[1]

    @property
    def account(self) -> str:
        """The id of the role's account, which must be the job's."""
        return self.role_arn.split(":")[4]


def wanted_of(request: Mapping[str, Any], region: str) -> Wanted:
    """What a CreateTrainingJob request names, in the region where it would be sent."""
    algorithm, resources = request.get("AlgorithmSpecification", {}), request.get("ResourceConfig", {})
    network, output = request.get("VpcConfig", {}), request.get("OutputDataConfig", {})
    checkpoints = _checkpoints(request)
    inputs = [uri for channel, uri in _channels(request) if channel != _CODE_CHANNEL]
    code = [uri for channel, uri in _channels(request) if channel == _CODE_CHANNEL]
    return Wanted(
        region=region,
        job_name=request["TrainingJobName"],
        role_arn=request["RoleArn"],
        instance_type=resources.get("InstanceType", ""),
        instance_count=int(resources.get("InstanceCount", 0)),
        spot=bool(request.get("EnableManagedSpotTraining", False)),
        warm_pool=bool(resources.get("KeepAlivePeriodInSeconds", 0)),
        training_plan=bool(resources.get("TrainingPlanArn")),
        image=algorithm.get("TrainingImage"),
        subnet_ids=_unique(network.get("Subnets", ())),
        group_ids=_unique(network.get("SecurityGroupIds", ())),
        file_system_id=next(_file_systems(request), None),
        reads=_unique([*inputs, *code, *_submitted(request), *checkpoints]),
        writes=_unique([*checkpoints, output.get("S3OutputPath")]),
        looked_into=_unique([*inputs, *checkpoints]),
        output_keys=_unique([output.get("KmsKeyId")]),
        volume_keys=_unique([resources.get("VolumeKmsKeyId")]),
    )


def _channels(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and S3 URI of each channel that comes from S3."""
    for channel in request.get("InputDataConfig", ()):
        source = channel.get("DataSource", {}).get("S3DataSource")
        if source:
            yield channel.get("ChannelName", ""), source["S3Uri"]


def _file_systems(request: Mapping[str, Any]) -> Iterator[str]:
    for channel in request.get("InputDataConfig", ()):
        source = channel.get("DataSource", {}).get("FileSystemDataSource")
        if source:
            yield source["FileSystemId"]


def _checkpoints(request: Mapping[str, Any]) -> list[str]:
    """The prefix that SageMaker mirrors, or that the container keeps itself."""
    places = (
        request.get("CheckpointConfig", {}).get("S3Uri"),
        request.get("Environment", {}).get(_CONTAINER_CHECKPOINTS),
    )
    return [each for each in places if each and each.startswith("s3://")]


def _submitted(request: Mapping[str, Any]) -> list[str]:
    """The archive of the code that the images' own toolkit fetches; hyperparameters are JSON or plain."""
    value = request.get("HyperParameters", {}).get(_SUBMITTED, "")
    try:
        uri = json.loads(value)
    except ValueError:
        uri = value
    return [uri] if isinstance(uri, str) and uri.startswith("s3://") else []


def _unique(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
