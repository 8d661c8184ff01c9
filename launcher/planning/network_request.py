"""The part of a request that says where a job's hosts stand, for a cluster that has no job yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def network_request(
    *,
    name: str,
    role_arn: str,
    instance_type: str,
    hosts: int,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
    file_system_id: str | None,
) -> dict[str, Any]:
    """A request of CreateTrainingJob with hosts, network and file system, and nothing to run on them.

    It is judged, never sent. Source: SageMaker API reference, CreateTrainingJob.
    """
    mounts = [
        {
            "ChannelName": "lustre",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": file_system_id,
                    "FileSystemType": "FSxLustre",
                    "DirectoryPath": "/",
                    "FileSystemAccessMode": "ro",
                }
            },
        }
    ]
    return {
        "TrainingJobName": name,
        "RoleArn": role_arn,
        "ResourceConfig": {"InstanceType": instance_type, "InstanceCount": hosts},
        "VpcConfig": {"Subnets": list(subnet_ids), "SecurityGroupIds": list(security_group_ids)},
        "InputDataConfig": mounts if file_system_id else [],
    }
