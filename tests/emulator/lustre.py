"""moto's FSx with what it lacks: a life cycle, mount name, interfaces, VPC, links to S3, unknown ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.core.exceptions import JsonRESTError
from moto.ec2.models import ec2_backends
from moto.fsx.models import FileSystem
from moto.fsx.responses import FSxResponse

_to_dict = FileSystem.to_dict
_describe = FSxResponse.describe_file_systems


@contextmanager
def emulated_lustre(
    lifecycles: dict[str, str], associations: dict[str, list[dict[str, Any]]]
) -> Iterator[None]:
    """Within this, file systems have what FSx tells of them. Use inside `mock_aws`.

    Args:
        lifecycles: FSx's word by the id of a file system; AVAILABLE for those that are not in it.
        associations: what DescribeDataRepositoryAssociations answers, by the id of the file system.
    """

    def to_dict(file_system: FileSystem) -> dict[str, Any]:
        described = _to_dict(file_system)
        id_, subnet_id = file_system.file_system_id, file_system.subnet_ids[0]
        ec2 = ec2_backends[file_system.backend.account_id][file_system.backend.region_name]
        lustre = {"DeploymentType": "PERSISTENT_2", "MountName": id_.removeprefix("fs-")}
        described.pop("SecurityGroupIds", None)  # FSx never tells them: they are those of the interfaces
        return {
            **described,
            "Lifecycle": lifecycles.get(id_, "AVAILABLE"),
            "VpcId": ec2.get_subnet(subnet_id).vpc_id,
            "NetworkInterfaceIds": [eni.id for eni in ec2.enis.values() if id_ in (eni.description or "")],
            "LustreConfiguration": {**described.get("LustreConfiguration", {}), **lustre},
        }

    def describe(response: FSxResponse) -> Any:
        for id_ in json.loads(response.body).get("FileSystemIds", ()):
            if id_ not in response.fsx_backend.file_systems:
                raise JsonRESTError("FileSystemNotFound", f"File system '{id_}' does not exist.")
        return _describe(response)

    def describe_associations(response: FSxResponse) -> str:
        filters = {each["Name"]: each["Values"] for each in json.loads(response.body).get("Filters", ())}
        found = [each for id_ in filters.get("file-system-id", ()) for each in associations.get(id_, ())]
        return json.dumps({"Associations": found})

    with (
        mock.patch.object(FileSystem, "to_dict", to_dict),
        mock.patch.object(FSxResponse, "describe_file_systems", describe),
        mock.patch.object(
            FSxResponse, "describe_data_repository_associations", describe_associations, create=True
        ),
    ):
        yield
