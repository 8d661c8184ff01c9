"""Small templates, and an account to deploy them into."""

from __future__ import annotations

import json
from typing import Any

import boto3

REGION = "us-west-2"
Template = dict[str, Any]


class Deployed:
    """An account, and stacks in it."""

    def client(self, service: str) -> Any:
        return boto3.client(
            service, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
        )

    @property
    def api(self) -> Any:
        return self.client("cloudformation")

    def create(self, name: str, template: Template) -> str:
        self.api.create_stack(StackName=name, TemplateBody=json.dumps(template))
        return self.status(name)

    def update(self, name: str, template: Template) -> str:
        self.api.update_stack(StackName=name, TemplateBody=json.dumps(template))
        return self.status(name)

    def refuses(self, name: str, template: Template, why: str, status: str = "UPDATE_FAILED") -> None:
        """The update of a stack is taken back, for this reason."""
        assert self.update(name, template) == "UPDATE_ROLLBACK_COMPLETE"
        assert why in self.reasons(name, status)

    def parameter(self, name: str) -> str:
        value: str = self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        return value

    def gone(self, *parameters: str) -> list[str]:
        """Those of the parameters that are not there."""
        names: list[str] = self.client("ssm").get_parameters(Names=parameters)["InvalidParameters"]
        return names

    def delete(self, name: str, **more: Any) -> str:
        id_ = self.api.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        self.api.delete_stack(StackName=name, **more)
        return self.status(id_)

    def status(self, name: str) -> str:
        status: str = self.api.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        return status

    def physical_id(self, stack: str, logical_id: str) -> str:
        found = self.api.describe_stack_resource(StackName=stack, LogicalResourceId=logical_id)
        id_: str = found["StackResourceDetail"]["PhysicalResourceId"]
        return id_

    def reasons(self, name: str, status: str) -> str:
        """Why things came to a status, joined."""
        events = self.api.describe_stack_events(StackName=name)["StackEvents"]
        return "\n".join(
            event.get("ResourceStatusReason", "") for event in events if event["ResourceStatus"] == status
        )

    def story(self, name: str, logical_id: str) -> list[str]:
        """The statuses of one resource, the oldest first."""
        events = self.api.describe_stack_events(StackName=name)["StackEvents"]
        return [each["ResourceStatus"] for each in events[::-1] if each["LogicalResourceId"] == logical_id]


def template(outputs: Template | None = None, **resources: Any) -> Template:
    return {"Resources": resources, **({"Outputs": outputs} if outputs else {})}


def resource(type_: str, policy: Template | None = None, **properties: Any) -> Template:
    return {"Type": f"AWS::{type_}", "Properties": properties, **(policy or {})}


def parameter(value: Any, **properties: Any) -> Template:
    return resource("SSM::Parameter", Type="String", Value=value, **properties)


def exported(value: Any, name: str = "shared") -> Template:
    return {"Out": {"Value": value, "Export": {"Name": name}}}


def ref(name: str) -> Template:
    return {"Ref": name}


VPC = resource("EC2::VPC", CidrBlock="10.0.0.0/16")


def subnet(cidr: str, **policy: str) -> Template:
    return resource("EC2::Subnet", policy, VpcId=ref("Vpc"), CidrBlock=cidr, AvailabilityZone="us-west-2a")


def group(**policy: str) -> Template:
    return resource("EC2::SecurityGroup", policy, GroupDescription="hosts", VpcId=ref("Vpc"))


def lustre(
    capacity: int = 1200, groups: tuple[str, ...] = (), lustre: Template | None = None, **policy: str
) -> Template:
    return resource(
        "FSx::FileSystem",
        policy,
        FileSystemType="LUSTRE",
        StorageCapacity=capacity,
        StorageType="SSD",
        SubnetIds=[ref("Subnet")],
        SecurityGroupIds=[ref(name) for name in groups],
        LustreConfiguration={"DeploymentType": "SCRATCH_2", **(lustre or {})},
    )


def with_files(files: Template | None = None, **more: Any) -> Template:
    """A file system in a network of its own."""
    return template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=files or lustre(), **more)
