"""The CloudFormation resources that moto leaves out, so that the real stacks can be deployed into it.

moto 5.2.5 answers CREATE_COMPLETE for types that it skips. `install` adds those that the stacks use:
security group egress, FSx for Lustre, bucket policies, AWS Batch for SageMaker, KMS keys and SSM
parameters with tags, and the custom resource that empties a VPC's default security group, which moto
would run in a container.
"""

from __future__ import annotations

import json
from typing import Any

from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel
from moto.ec2.models import ec2_backends
from moto.ec2.models.security_groups import SecurityGroupRule
from moto.fsx.models import FileSystem, fsx_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.ssm.models import ssm_backends

from tests.emulator import cloudformation_batch, stack_outputs

_resource_class_from_type = parsing.resource_class_from_type


def install() -> None:
    """Let moto's CloudFormation create the types below; may be called more than once."""
    for remembered in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
        remembered.cache_clear()
    parsing.resource_class_from_type = _class_of
    stack_outputs.install()
    # moto finds the classes by themselves, but only those of modules that someone has imported.
    assert cloudformation_batch.ServiceJobQueue.cloudformation_type()


def _class_of(resource_type: str) -> type[CloudFormationModel]:
    # moto runs every custom resource's function in a container, without asking its own map first.
    for custom in (EmptyDefaultSecurityGroup, LogRetention):
        if resource_type == custom.cloudformation_type():
            return custom
    return _resource_class_from_type(resource_type)


class _Nameless:
    """What resources have in common that need no more than a physical id.

    No CloudFormationModel itself: moto knows only the direct subclasses of that.
    """

    def __init__(self, physical_resource_id: str) -> None:
        self.physical_resource_id = physical_resource_id

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return False


class SecurityGroupEgress(_Nameless, CloudFormationModel):
    """One egress rule.

    As CloudFormation is said to do (aws-cdk issues 987 and 22140), adding one takes away an allow-all
    rule that is already there; so the order in which a template adds its rules shows in the result.
    """

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::EC2::SecurityGroupEgress"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> SecurityGroupEgress:
        properties = cloudformation_json["Properties"]
        backend, group_id = ec2_backends[account_id][region_name], properties["GroupId"]
        group = backend.get_security_group_from_id(group_id)
        group.egress_rules = [rule for rule in group.egress_rules if not _allows_all(rule)]
        destination = properties.get("DestinationSecurityGroupId")
        backend.authorize_security_group_egress(
            group_name_or_id=group_id,
            ip_protocol=properties["IpProtocol"],
            from_port=properties.get("FromPort"),
            to_port=properties.get("ToPort"),
            ip_ranges=[{"CidrIp": properties["CidrIp"]}] if "CidrIp" in properties else [],
            source_groups=[{"GroupId": destination}] if destination else [],
        )
        return cls(resource_name)


class EmptyDefaultSecurityGroup(_Nameless, CloudFormationModel):
    """What the CDK's custom resource does: revoke every rule of the VPC's default group."""

    @staticmethod
    def cloudformation_type() -> str:
        return "Custom::VpcRestrictDefaultSG"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> EmptyDefaultSecurityGroup:
        group_id = cloudformation_json["Properties"]["DefaultSecurityGroupId"]
        group = ec2_backends[account_id][region_name].get_security_group_from_id(group_id)
        group.ingress_rules, group.egress_rules = [], []
        return cls(resource_name)


class LogRetention(_Nameless, CloudFormationModel):
    """What the CDK's custom resource does: make the log group where there is none, and set its retention."""

    @staticmethod
    def cloudformation_type() -> str:
        return "Custom::LogRetention"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> LogRetention:
        properties = cloudformation_json["Properties"]
        backend, name = logs_backends[account_id][region_name], properties["LogGroupName"]
        if name not in backend.groups:
            backend.create_log_group(name, {})
        backend.put_retention_policy(name, properties["RetentionInDays"])
        return cls(name)


class BucketPolicy(_Nameless, CloudFormationModel):
    """A bucket's policy."""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::S3::BucketPolicy"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> BucketPolicy:
        properties = cloudformation_json["Properties"]
        policy = json.dumps(properties["PolicyDocument"]).encode()
        s3_backends[account_id]["aws"].put_bucket_policy(properties["Bucket"], policy)
        return cls(properties["Bucket"])


class SsmParameter(_Nameless, CloudFormationModel):
    """An SSM parameter whose tags are a map, as templates have them; moto's own stumbles over that."""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::SSM::Parameter"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> SsmParameter:
        properties = cloudformation_json["Properties"]
        ssm_backends[account_id][region_name].put_parameter(
            name=properties["Name"],
            description=properties.get("Description"),
            value=properties["Value"],
            parameter_type=properties["Type"],
            allowed_pattern=None,
            keyid=None,
            overwrite=False,
            tags=[{"Key": key, "Value": value} for key, value in properties.get("Tags", {}).items()],
            data_type="text",
            tier=None,
            policies=None,
        )
        return cls(properties["Name"])


class KmsKey(_Nameless, CloudFormationModel):
    """A key with tags as templates have them; moto's own stumbles over those."""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::KMS::Key"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == "Arn"

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return self._arn

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> KmsKey:
        properties = cloudformation_json["Properties"]
        key = kms_backends[account_id][region_name].create_key(
            policy=json.dumps(properties["KeyPolicy"]),
            key_usage="ENCRYPT_DECRYPT",
            key_spec="SYMMETRIC_DEFAULT",
            description=properties.get("Description"),
            tags=[{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", ())],
        )
        key.key_rotation_status = properties.get("EnableKeyRotation", False)
        made = cls(key.id)
        made._arn = key.arn
        return made


class LustreFileSystem(FileSystem, CloudFormationModel):
    """An FSx for Lustre file system that is AVAILABLE at once and has a mount name."""

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::FSx::FileSystem"

    @property
    def physical_resource_id(self) -> str:
        return self.file_system_id

    @property
    def mount_name(self) -> str:
        return self.file_system_id.removeprefix("fs-")

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in ("LustreMountName", "DNSName", "ResourceARN")

    def get_cfn_attribute(self, attribute_name: str) -> str:
        known = {
            "LustreMountName": self.mount_name,
            "DNSName": self.dns_name,
            "ResourceARN": self.resource_arn,
        }
        return known[attribute_name]

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> LustreFileSystem:
        properties = cloudformation_json["Properties"]
        backend = fsx_backends[account_id][region_name]
        file_system = cls(
            account_id=account_id,
            region_name=region_name,
            file_system_type=properties["FileSystemType"],
            storage_capacity=int(properties["StorageCapacity"]),
            storage_type=properties["StorageType"],
            subnet_ids=properties["SubnetIds"],
            security_group_ids=properties["SecurityGroupIds"],
            tags=properties.get("Tags"),
            kms_key_id=properties.get("KmsKeyId"),
            windows_configuration=None,
            lustre_configuration=properties["LustreConfiguration"],
            ontap_configuration=None,
            open_zfs_configuration=None,
            backend=backend,
        )
        backend.file_systems[file_system.file_system_id] = file_system
        return file_system

    def to_dict(self) -> dict[str, Any]:
        described = super().to_dict()
        configuration = {**described["LustreConfiguration"], "MountName": self.mount_name}
        return {**described, "Lifecycle": "AVAILABLE", "LustreConfiguration": configuration}


def _allows_all(rule: SecurityGroupRule) -> bool:
    return rule.ip_protocol == "-1" and rule.ip_range.get("CidrIp") == "0.0.0.0/0"
