"""VPCs and what is in them."""

from __future__ import annotations

import json
from typing import Any

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import (
    Kind,
    Properties,
    Refused,
    Resource,
    as_list,
    only,
    tags_gone,
    tags_of,
)


def tagged(kind: str, properties: Properties) -> dict[str, Any]:
    """The argument with which EC2 takes the tags of what it makes."""
    tags = as_list(tags_of(properties))
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def retag(ec2: Any, id_: str, old: Resource, properties: Properties) -> None:
    """Give something in EC2 the tags of the new properties."""
    if gone := tags_gone(old, properties):
        ec2.delete_tags(Resources=[id_], Tags=[{"Key": key} for key in gone])
    if tags := tags_of(properties):
        ec2.create_tags(Resources=[id_], Tags=as_list(tags))


def refuse_where_used(what: str, ids: list[str]) -> None:
    """EC2's refusal to delete what something else needs."""
    if ids:
        raise Refused(
            f"DependencyViolation: The {what} has dependencies and cannot be deleted ({', '.join(ids)})."
        )


def interfaces_of(ec2: Any, key: str, id_: str) -> list[str]:
    """The interfaces in a VPC or a subnet, or with a group, by the key of EC2's filter."""
    found = ec2.describe_network_interfaces(Filters=[{"Name": key, "Values": [id_]}])["NetworkInterfaces"]
    return [each["NetworkInterfaceId"] for each in found]


class _Tagged(Kind):
    """A type of which nothing but the tags can be changed."""

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        id_ = old.attributes.get("AllocationId", old.physical_id)
        retag(account.client("ec2"), id_, old, properties)


class Vpc(Kind):
    type = "AWS::EC2::VPC"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        ec2 = account.client("ec2")
        wanted = only(properties, "CidrBlock", "InstanceTenancy")
        vpc = ec2.create_vpc(**wanted, **tagged("vpc", properties))["Vpc"]
        self._set_dns(ec2, vpc["VpcId"], properties)
        filters = [
            {"Name": "vpc-id", "Values": [vpc["VpcId"]]},
            {"Name": "group-name", "Values": ["default"]},
        ]
        (group,) = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
        attributes = {**only(vpc, "VpcId", "CidrBlock"), "DefaultSecurityGroup": group["GroupId"]}
        return Resource(vpc["VpcId"], properties, attributes)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        ec2 = account.client("ec2")
        self._set_dns(ec2, old.physical_id, properties)
        retag(ec2, old.physical_id, old, properties)

    def delete(self, account: Account, old: Resource) -> None:
        ec2, filters = account.client("ec2"), [{"Name": "vpc-id", "Values": [old.physical_id]}]
        attached = [{"Name": "attachment.vpc-id", "Values": [old.physical_id]}]
        gateways = ec2.describe_internet_gateways(Filters=attached)["InternetGateways"]
        groups = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
        subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
        used = [each["SubnetId"] for each in subnets]
        used += [each["GroupId"] for each in groups if each["GroupName"] != "default"]
        used += [each["InternetGatewayId"] for each in gateways]
        used += interfaces_of(ec2, "vpc-id", old.physical_id)
        refuse_where_used(f"vpc '{old.physical_id}'", used)
        ec2.delete_vpc(VpcId=old.physical_id)

    def _set_dns(self, ec2: Any, id_: str, properties: Properties) -> None:
        # One attribute a call; EC2 has support on and hostnames off where nothing is said.
        for key, otherwise in (("EnableDnsSupport", True), ("EnableDnsHostnames", False)):
            ec2.modify_vpc_attribute(VpcId=id_, **{key: {"Value": properties.get(key, otherwise)}})


class VpcCidrBlock(Kind):
    type, deletion = "AWS::EC2::VPCCidrBlock", ("ec2", "disassociate_vpc_cidr_block", "AssociationId")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").associate_vpc_cidr_block(**only(properties, "VpcId", "CidrBlock"))
        return Resource(made["CidrBlockAssociation"]["AssociationId"], properties)


class Subnet(Kind):
    type, deletion = "AWS::EC2::Subnet", ("ec2", "delete_subnet", "SubnetId")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        ec2 = account.client("ec2")
        wanted = only(properties, "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        subnet = ec2.create_subnet(**wanted, **tagged("subnet", properties))["Subnet"]
        self._set_public_addresses(ec2, subnet["SubnetId"], properties)
        attributes = only(subnet, "SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        return Resource(subnet["SubnetId"], properties, attributes)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        ec2 = account.client("ec2")
        self._set_public_addresses(ec2, old.physical_id, properties)
        retag(ec2, old.physical_id, old, properties)

    def delete(self, account: Account, old: Resource) -> None:
        used = interfaces_of(account.client("ec2"), "subnet-id", old.physical_id)
        refuse_where_used(f"subnet '{old.physical_id}'", used)
        super().delete(account, old)

    def _set_public_addresses(self, ec2: Any, id_: str, properties: Properties) -> None:
        public = {"Value": properties.get("MapPublicIpOnLaunch", False)}
        ec2.modify_subnet_attribute(SubnetId=id_, MapPublicIpOnLaunch=public)


class RouteTable(_Tagged):
    type, deletion = "AWS::EC2::RouteTable", ("ec2", "delete_route_table", "RouteTableId")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").create_route_table(
            VpcId=properties["VpcId"], **tagged("route-table", properties)
        )
        id_ = made["RouteTable"]["RouteTableId"]
        return Resource(id_, properties, {"RouteTableId": id_})


class SubnetRouteTableAssociation(Kind):
    type = "AWS::EC2::SubnetRouteTableAssociation"
    deletion = "ec2", "disassociate_route_table", "AssociationId"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").associate_route_table(**only(properties, "SubnetId", "RouteTableId"))
        return Resource(made["AssociationId"], properties)


class Route(Kind):
    type = "AWS::EC2::Route"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        account.client("ec2").create_route(**properties)
        return Resource(f"{properties['RouteTableId']}|{properties['DestinationCidrBlock']}", properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        account.client("ec2").replace_route(**properties)

    def delete(self, account: Account, old: Resource) -> None:
        account.client("ec2").delete_route(**only(old.properties, "RouteTableId", "DestinationCidrBlock"))


class InternetGateway(_Tagged):
    type, deletion = "AWS::EC2::InternetGateway", ("ec2", "delete_internet_gateway", "InternetGatewayId")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").create_internet_gateway(**tagged("internet-gateway", properties))
        return Resource(made["InternetGateway"]["InternetGatewayId"], properties)


class VpcGatewayAttachment(Kind):
    type = "AWS::EC2::VPCGatewayAttachment"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        account.client("ec2").attach_internet_gateway(**only(properties, "InternetGatewayId", "VpcId"))
        return Resource(f"IGW|{properties['VpcId']}", properties)

    def delete(self, account: Account, old: Resource) -> None:
        account.client("ec2").detach_internet_gateway(**only(old.properties, "InternetGatewayId", "VpcId"))


class ElasticAddress(_Tagged):
    type = "AWS::EC2::EIP"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").allocate_address(Domain="vpc", **tagged("elastic-ip", properties))
        return Resource(made["PublicIp"], properties, {"AllocationId": made["AllocationId"]})

    def delete(self, account: Account, old: Resource) -> None:
        account.client("ec2").release_address(AllocationId=old.attributes["AllocationId"])


class NatGateway(_Tagged):
    type, deletion = "AWS::EC2::NatGateway", ("ec2", "delete_nat_gateway", "NatGatewayId")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        wanted = only(properties, "SubnetId", "AllocationId")
        made = account.client("ec2").create_nat_gateway(**wanted, **tagged("natgateway", properties))
        return Resource(made["NatGateway"]["NatGatewayId"], properties)

    def delete(self, account: Account, old: Resource) -> None:
        ec2 = account.client("ec2")
        (gateway,) = ec2.describe_nat_gateways(NatGatewayIds=[old.physical_id])["NatGateways"]
        super().delete(account, old)
        # moto leaves the gateway's interface behind.
        for address in gateway["NatGatewayAddresses"]:
            ec2.delete_network_interface(NetworkInterfaceId=address["NetworkInterfaceId"])


class VpcEndpoint(Kind):
    type, deletion = "AWS::EC2::VPCEndpoint", ("ec2", "delete_vpc_endpoints", "VpcEndpointIds")
    LISTS = ("RouteTableIds", "SubnetIds", "SecurityGroupIds")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        ec2 = account.client("ec2")
        policy = properties.get("PolicyDocument")
        made = ec2.create_vpc_endpoint(
            **only(properties, "VpcId", "ServiceName", "PrivateDnsEnabled", *self.LISTS),
            VpcEndpointType=properties.get("VpcEndpointType", "Gateway"),
            **({"PolicyDocument": json.dumps(policy)} if policy else {}),
            **tagged("vpc-endpoint", properties),
        )["VpcEndpoint"]
        self._give_groups(ec2, made["VpcEndpointId"], properties)
        return Resource(made["VpcEndpointId"], properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        ec2, changes = account.client("ec2"), {}
        for name in self.LISTS:
            before, after = old.properties.get(name, []), properties.get(name, [])
            changes[f"Add{name}"] = [each for each in after if each not in before]
            changes[f"Remove{name}"] = [each for each in before if each not in after]
        if properties.get("PolicyDocument") != old.properties.get("PolicyDocument"):
            policy = properties.get("PolicyDocument")
            changes |= {"PolicyDocument": json.dumps(policy)} if policy else {"ResetPolicy": True}
        wanted = {key: value for key, value in changes.items() if value}
        if wanted:
            ec2.modify_vpc_endpoint(VpcEndpointId=old.physical_id, **wanted)
        self._give_groups(ec2, old.physical_id, properties)
        retag(ec2, old.physical_id, old, properties)

    def _give_groups(self, ec2: Any, id_: str, properties: Properties) -> None:
        # moto's interfaces of an endpoint have no groups, so that nothing would hold the groups.
        (made,) = ec2.describe_vpc_endpoints(VpcEndpointIds=[id_])["VpcEndpoints"]
        for interface in made.get("NetworkInterfaceIds", ()):
            ec2.modify_network_interface_attribute(
                NetworkInterfaceId=interface, Groups=list(properties.get("SecurityGroupIds", ()))
            )


class FlowLog(_Tagged):
    type, deletion = "AWS::EC2::FlowLog", ("ec2", "delete_flow_logs", "FlowLogIds")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = account.client("ec2").create_flow_logs(
            ResourceIds=[properties["ResourceId"]],
            **only(
                properties, "ResourceType", "TrafficType", "LogDestinationType", "LogDestination",
                "LogGroupName", "DeliverLogsPermissionArn", "MaxAggregationInterval",
            ),
            **tagged("vpc-flow-log", properties),
        )  # fmt: skip
        return Resource(made["FlowLogIds"][0], properties)
