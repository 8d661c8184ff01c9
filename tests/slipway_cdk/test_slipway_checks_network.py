"""EFA003 and EFA004 on plain templates: ways out of subnets, and their size."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.failure_modes.model import Severity
from tests.slipway_cdk.checking import VPC, codes, efa_rules, group, judged, rule

SERVICES = ("ecr.api", "ecr.dkr", "logs", "monitoring", "sts", "sagemaker.api")
REGION = {"Ref": "AWS::Region"}


def subnet(name: str = "Subnet", cidr: Any = "10.0.0.0/24", route: dict[str, Any] | None = None) -> Any:
    """A subnet with a route table of its own, and a default route if one is given."""
    vpc = {"Ref": "Vpc"}
    table, of = {"Ref": f"{name}Table"}, {"Ref": name}
    resources: dict[str, Any] = {
        name: resource("Subnet", VpcId=vpc, CidrBlock=cidr, AvailabilityZone="us-west-2a"),
        f"{name}Table": resource("RouteTable", VpcId=vpc),
        f"{name}Uses": resource("SubnetRouteTableAssociation", SubnetId=of, RouteTableId=table),
    }
    if route is not None:
        everywhere = {"DestinationCidrBlock": "0.0.0.0/0", "RouteTableId": table}
        resources[f"{name}Route"] = resource("Route", **everywhere, **route)
    return resources


def resource(type_: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::EC2::{type_}", "Properties": properties}


def endpoint(service: str, **properties: Any) -> dict[str, Any]:
    name = {"Fn::Join": ["", ["com.amazonaws.", REGION, f".{service}"]]}
    interface = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    return resource("VPCEndpoint", VpcId={"Ref": "Vpc"}, ServiceName=name, **{**interface, **properties})


def gateway(*tables: str) -> dict[str, Any]:
    return resource(
        "VPCEndpoint",
        VpcId={"Ref": "Vpc"},
        ServiceName="com.amazonaws.us-west-2.s3",
        RouteTableIds=[{"Ref": table} for table in tables],
    )


EFA = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa")}
NAT = {"NatGatewayId": {"Ref": "Nat"}}
ENDPOINTS = {service: endpoint(service) for service in SERVICES}
ISOLATED = {**EFA, **subnet(), "S3": gateway("SubnetTable"), **ENDPOINTS}


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({**EFA, **subnet(route=NAT)}, id="NAT gateway"),
        pytest.param({**EFA, **subnet(route={"TransitGatewayId": "tgw-1"})}, id="transit gateway"),
        pytest.param(ISOLATED, id="every endpoint"),
        pytest.param({**ISOLATED, "S3": endpoint("s3")}, id="interface endpoint to S3"),
        pytest.param({**EFA, **subnet(), **subnet("Nated", route=NAT)}, id="another subnet leads out"),
        pytest.param({**VPC, **subnet()}, id="no training in this VPC"),
        pytest.param(
            {
                **ISOLATED,
                "Front": group(ingress=[]),
                "Https": rule("ingress", "Front", "Efa", "tcp", (443, 443)),
            }
            | {name: endpoint(name, SecurityGroupIds=[{"Ref": "Front"}]) for name in SERVICES},
            id="endpoints admit the hosts",
        ),
    ],
)
def test_there_is_a_way_out(resources: dict[str, Any]) -> None:
    assert codes(resources) == []


@pytest.mark.parametrize(
    ("resources", "missing"),
    [
        pytest.param({**EFA, **subnet()}, ("s3", *SERVICES), id="nothing"),
        pytest.param({**ISOLATED, "S3": gateway("OtherTable")}, ("s3",), id="gateway of other subnets"),
        pytest.param({**ISOLATED, "S3": gateway()}, ("s3",), id="gateway of no subnet"),
        pytest.param(
            {**EFA, **subnet(), "S3": resource("VPCEndpoint", VpcId="vpc-1", ServiceName="x.y.z.s3")},
            ("s3", *SERVICES),
            id="endpoint of another VPC",
        ),
        pytest.param({**EFA, **subnet(route={})}, ("s3", *SERVICES), id="route that leads nowhere"),
    ],
)
def test_subnet_without_a_way_to_s3_is_an_error(resources: dict[str, Any], missing: tuple[str, ...]) -> None:
    (finding,) = judged(resources)

    assert (finding.code, finding.severity, finding.subject) == ("EFA003", Severity.ERROR, "Stack/Subnet")
    assert f"nor do endpoints to {', '.join(missing)}." in finding.message


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param({}, id="no endpoint"),
        pytest.param({"sts": endpoint("sts", PrivateDnsEnabled=False)}, id="no private names"),
        pytest.param(
            {"sts": endpoint("sts", SecurityGroupIds=[{"Ref": "Front"}]), "Front": group(ingress=[])},
            id="admits nobody",
        ),
    ],
)
def test_other_service_that_cannot_be_reached_is_a_warning(instead: dict[str, Any]) -> None:
    without = {name: each for name, each in ISOLATED.items() if name != "sts"}

    (finding,) = judged({**without, **instead})

    assert (finding.severity, finding.subject) == (Severity.WARNING, "Stack/Subnet")
    assert "nor do endpoints to sts." in finding.message


def test_every_named_subnet_must_lead_out() -> None:
    resources = {**EFA, **subnet(), **subnet("Nated", route=NAT)}

    assert codes(resources, training_subnets=["Subnet", "Nated"]) == [("EFA003", "Subnet")]


def test_subnet_of_the_file_system_is_a_training_subnet() -> None:
    servers = group(ingress=[{"IpProtocol": "-1", "CidrIp": "10.0.0.0/16"}])
    properties = {
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "SubnetIds": [{"Ref": "Subnet"}],
        "SecurityGroupIds": [{"Fn::GetAtt": ["Servers", "GroupId"]}],
        "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
    }
    file_system = {"Type": "AWS::FSx::FileSystem", "Properties": properties}
    resources = {**VPC, **subnet(), **subnet("Nated", route=NAT), "Servers": servers, "Fs": file_system}

    assert codes(resources) == [("EFA003", "Subnet")]


@pytest.mark.parametrize("table", [None, "rtb-0123456789abcdef0"])
def test_routes_that_are_not_in_the_app_are_not_judged(table: str | None) -> None:
    resources = {**EFA, **subnet()}
    if table is None:
        resources["Subnet"]["Properties"]["VpcId"] = "vpc-0123456789abcdef0"
        resources["Efa"] = group(egress=[], vpc="vpc-0123456789abcdef0")
    else:
        resources["SubnetUses"]["Properties"]["RouteTableId"] = table

    assert codes(resources) == []


def test_main_route_table_of_a_new_vpc_leads_nowhere() -> None:
    resources = {**EFA, **subnet(route=NAT)}
    del resources["SubnetUses"]

    assert codes(resources) == [("EFA003", "Subnet")]


@pytest.mark.parametrize(
    ("cidr", "hosts", "found"),
    [
        pytest.param("10.0.0.0/24", {"ml.p4d.24xlarge": 50}, [], id="50 EFA hosts in a /24"),
        pytest.param("10.0.0.0/24", {"ml.p4d.24xlarge": 51}, ["EFA004"], id="51 do not fit"),
        pytest.param("10.0.0.0/24", {"ml.p5.48xlarge": 8}, ["EFA004"], id="an address per interface on p5"),
        pytest.param("10.0.0.0/28", {"ml.m5.large": 5}, [], id="2 addresses without EFA"),
        pytest.param("10.0.0.0/28", {"ml.m5.large": 6}, ["EFA004"], id="AWS keeps 5 of 16"),
        pytest.param("10.0.0.0/28", {"ml.m5.large": 3, "ml.c5.xlarge": 3}, ["EFA004"], id="types add up"),
        pytest.param("10.0.0.0/28", {}, [], id="nothing planned"),
        pytest.param({"Fn::Cidr": ["10.0.0.0/16", 4, 8]}, {"ml.p5.48xlarge": 64}, [], id="range not known"),
    ],
)
def test_subnet_holds_the_planned_hosts(cidr: Any, hosts: dict[str, int], found: list[str]) -> None:
    resources = {**VPC, **subnet(cidr=cidr, route=NAT)}

    assert codes(resources, training_subnets=["Subnet"], hosts=hosts) == [(code, "Subnet") for code in found]


def test_message_tells_what_is_there_and_what_is_needed() -> None:
    resources = {**VPC, **subnet(cidr="10.0.0.0/26", route=NAT)}

    (finding,) = judged(resources, training_subnets=["Subnet"], hosts={"ml.p5.48xlarge": 4})

    assert "10.0.0.0/26 has 59 addresses for hosts, but 4 of ml.p5.48xlarge need 128" in finding.message
