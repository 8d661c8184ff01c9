"""What the tests of the rule pack share: judging plain resources, and judging a synthesized app."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from launcher.failure_modes.model import Finding
from slipway_cdk.checks.app import App, Declaration
from slipway_cdk.checks.templates import Resolver, Template
from slipway_cdk.slipway_checks import SlipwayChecks, findings

Resources = Mapping[str, Mapping[str, Any]]

VPC = {"Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}}


def judged(resources: Resources, **declared: Any) -> list[Finding]:
    """What the rules find in one template with these resources."""
    template = Template("Stack", "Stack.template.json", {"Resources": resources}, region="us-west-2")
    named = {key: tuple(f"Stack/{name}" for name in declared.pop(key, ())) for key in _NAMES}
    return list(findings(App(Resolver([template]).resources, Declaration(**named, **declared))))


def codes(resources: Resources, **declared: Any) -> list[tuple[str, str]]:
    """The code and the logical id of each finding."""
    return [(each.code, str(each.subject).removeprefix("Stack/")) for each in judged(resources, **declared)]


def vpc_of_others(scope: cdk.Stack) -> ec2.IVpc:
    """A VPC of someone else's, about which the templates say nothing."""
    return ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-west-2a"]
    )


def violations(app: cdk.App, pack: SlipwayChecks | None = None) -> list[dict[str, Any]]:
    """What the CDK reports of the pack when it synthesizes the app."""
    validate = mock.patch.object(SlipwayChecks, "validate", autospec=True, side_effect=SlipwayChecks.validate)
    with validate as validated:
        cdk.Validations.of(app).add_plugins(pack or SlipwayChecks(app))
        with contextlib.suppress(RuntimeError):
            app.synth(force=True)
    # A pack that finds nothing is not in the report, nor is one that was never asked.
    assert validated.called
    report = json.loads((Path(app.outdir) / "validation-report.json").read_text())
    (own,) = [each for each in report["pluginReports"] if each["pluginName"] == "Slipway"] or [None]
    if own is None:
        return []
    assert "metadata" not in own, own["metadata"]
    found: list[dict[str, Any]] = own["violations"]
    return found


def reported(app: cdk.App, pack: SlipwayChecks | None = None) -> list[tuple[str, str]]:
    """The code and the construct's path of each violation."""
    return [
        (each["ruleName"], construct["constructPath"].removesuffix("/Resource"))
        for each in violations(app, pack)
        for construct in each["violatingConstructs"]
    ]


def group(*, ingress: list[Any] | None = None, egress: list[Any] | None = None, vpc: Any = None) -> Any:
    """A security group with inline rules."""
    properties = {
        "GroupDescription": "a group",
        "VpcId": vpc or {"Ref": "Vpc"},
        "SecurityGroupIngress": ingress,
        "SecurityGroupEgress": egress,
    }
    given = {key: value for key, value in properties.items() if value is not None}
    return {"Type": "AWS::EC2::SecurityGroup", "Properties": given}


def rule(
    direction: str, of: Any, peer: Any, protocol: str = "-1", ports: tuple[int, int] | None = None
) -> Any:
    """A rule that is a resource of its own; names are logical ids, addresses are CIDRs."""
    properties: dict[str, Any] = {"GroupId": _group_id(of), "IpProtocol": protocol}
    if isinstance(peer, str) and "/" in peer:
        properties["CidrIp"] = peer
    else:
        side = "SourceSecurityGroupId" if direction == "ingress" else "DestinationSecurityGroupId"
        properties[side] = _group_id(peer)
    if ports:
        properties |= {"FromPort": ports[0], "ToPort": ports[1]}
    return {"Type": f"AWS::EC2::SecurityGroup{direction.title()}", "Properties": properties}


def efa_rules(of: str) -> dict[str, Any]:
    """The three rules that a group used for EFA needs."""
    return {
        f"{of}In": rule("ingress", of, of),
        f"{of}Out": rule("egress", of, of),
        f"{of}Away": rule("egress", of, "0.0.0.0/0"),
    }


def _group_id(of: Any) -> Any:
    return {"Fn::GetAtt": [of, "GroupId"]} if isinstance(of, str) and not of.startswith("sg-") else of


_NAMES = ("efa_groups", "training_subnets")
