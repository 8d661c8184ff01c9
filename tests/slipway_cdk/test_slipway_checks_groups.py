"""EFA001 and EFA002 on plain templates: which rules make a group good, and which groups are judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.slipway_cdk.checking import VPC, codes, efa_rules, group, judged, rule

SELF = {"Fn::GetAtt": ["Efa", "GroupId"]}
OTHER = {"Fn::GetAtt": ["Other", "GroupId"]}
ALL, TCP = {"IpProtocol": "-1"}, {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535}
ANY = {"CidrIp": "0.0.0.0/0"}
FROM_SELF, TO_SELF = {"SourceSecurityGroupId": SELF}, {"DestinationSecurityGroupId": SELF}
FROM_OTHER, TO_OTHER = {"SourceSecurityGroupId": OTHER}, {"DestinationSecurityGroupId": OTHER}
UNKNOWN = {"Fn::ImportValue": "somebody-elses-export"}
GOOD_IN, GOOD_OUT = [ALL | FROM_SELF], [ALL | TO_SELF, ALL | ANY]


@pytest.mark.parametrize(
    ("ingress", "egress", "found"),
    [
        pytest.param(GOOD_IN, GOOD_OUT, [], id="all three rules"),
        pytest.param(GOOD_IN, [ALL | TO_SELF | ANY], [], id="group and CIDR in one rule"),
        pytest.param([*GOOD_IN, ALL | FROM_OTHER, ALL | ANY], GOOD_OUT, [], id="others may come in too"),
        pytest.param([FROM_SELF | {"IpProtocol": -1}], GOOD_OUT, [], id="protocol as a number"),
        pytest.param(GOOD_IN, None, ["EFA002"], id="EC2's default egress is no rule to itself"),
        pytest.param(GOOD_IN, [ALL | ANY], ["EFA002"], id="any address is not itself"),
        pytest.param(GOOD_IN, [ALL | {"CidrIpv6": "::/0"}], ["EFA002"], id="any IPv6 address neither"),
        pytest.param(
            GOOD_IN, [ALL | {"DestinationPrefixListId": "pl-1"}], ["EFA002"], id="nor is a prefix list"
        ),
        pytest.param(GOOD_IN, [TCP | TO_SELF, ALL | ANY], ["EFA002"], id="TCP 0-65535 to itself"),
        pytest.param([TCP | FROM_SELF], GOOD_OUT, ["EFA001"], id="TCP 0-65535 from itself"),
        pytest.param(None, GOOD_OUT, ["EFA001"], id="nothing comes in"),
        pytest.param([ALL | ANY], GOOD_OUT, ["EFA001"], id="any address in is not itself"),
        pytest.param([ALL | FROM_OTHER], GOOD_OUT, ["EFA001"], id="another group in is not itself"),
        pytest.param(GOOD_IN, [ALL | TO_OTHER, ALL | ANY], ["EFA002"], id="another group out is not itself"),
        pytest.param(None, None, ["EFA001", "EFA002"], id="neither"),
        pytest.param(
            [ALL | {"SourceSecurityGroupId": UNKNOWN}], GOOD_OUT, [], id="unknown peer may be itself"
        ),
        pytest.param({"Fn::If": ["C", [], []]}, GOOD_OUT, [], id="rules that a condition decides"),
        pytest.param(GOOD_IN, [{"Fn::If": ["C", {}, {}]}], [], id="one rule that a condition decides"),
    ],
)
def test_named_group_is_judged_by_its_rules(ingress: Any, egress: Any, found: list[str]) -> None:
    resources = {**VPC, "Efa": group(ingress=ingress, egress=egress), "Other": group()}

    assert codes(resources, efa_groups=["Efa"]) == [(code, "Efa") for code in found]


@pytest.mark.parametrize("missing", ["EfaIn", "EfaOut", "EfaAway"])
def test_each_of_the_three_rules_is_needed(missing: str) -> None:
    resources = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa")}
    del resources[missing]
    code = {"EfaIn": "EFA001", "EfaOut": "EFA002", "EfaAway": "EFA003"}[missing]

    assert codes(resources) == [(code, "Efa")]


def test_inline_and_separate_rules_add_up() -> None:
    resources = {**VPC, "Efa": group(egress=[ALL | ANY])}
    resources |= {"In": rule("ingress", "Efa", "Efa"), "Out": rule("egress", "Efa", "Efa")}

    assert codes(resources) == []


def test_separate_rule_takes_the_default_way_out_away() -> None:
    """CloudFormation removes the allow-all rule of a group that lists none: aws-cdk issue 987."""
    resources = {**VPC, "Efa": group()}
    resources |= {"In": rule("ingress", "Efa", "Efa"), "Out": rule("egress", "Efa", "Efa")}

    assert codes(resources) == [("EFA003", "Efa")]


def test_ref_and_attribute_name_the_same_group() -> None:
    resources = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa")}
    resources["EfaOut"]["Properties"]["DestinationSecurityGroupId"] = {"Ref": "Efa"}

    assert codes(resources) == []


def resource(type_: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{type_}", "Properties": properties}


def launch_template(*interfaces: dict[str, Any]) -> dict[str, Any]:
    return resource("EC2::LaunchTemplate", LaunchTemplateData={"NetworkInterfaces": list(interfaces)})


COMPUTE = {"SecurityGroupIds": [SELF], "LaunchTemplate": {"LaunchTemplateId": {"Ref": "Template"}}}


@pytest.mark.parametrize(
    ("uses", "judged"),
    [
        ([launch_template({"InterfaceType": "efa", "Groups": [SELF]})], True),
        ([launch_template({"InterfaceType": "efa-only", "Groups": [SELF]})], True),
        ([launch_template({"InterfaceType": "interface", "Groups": [SELF]})], False),
        ([resource("EC2::NetworkInterface", InterfaceType="efa", GroupSet=[SELF])], True),
        (
            [
                launch_template({"InterfaceType": "efa"}),
                resource("Batch::ComputeEnvironment", ComputeResources=COMPUTE),
            ],
            True,
        ),
    ],
    ids=["launch template", "EFA alone", "ordinary launch template", "network interface", "Batch"],
)
def test_groups_of_what_has_efa_are_judged(uses: list[dict[str, Any]], judged: bool) -> None:
    resources = {**VPC, "Efa": group(), **dict(zip(("Template", "Batch"), uses, strict=False))}

    assert codes(resources) == ([("EFA001", "Efa"), ("EFA002", "Efa")] if judged else [])


def test_one_good_group_of_an_interface_is_enough() -> None:
    interface = {"InterfaceType": "efa", "Groups": [OTHER, SELF]}
    resources = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa"), "Other": group()}

    assert codes({**resources, "Template": launch_template(interface)}) == []


def test_two_half_groups_of_an_interface_are_not_enough() -> None:
    interface = {"InterfaceType": "efa", "Groups": [OTHER, SELF]}
    other = group(ingress=[ALL | FROM_OTHER])
    efa = group(egress=[ALL | TO_SELF, ALL | ANY])

    found = codes({**VPC, "Efa": efa, "Other": other, "Template": launch_template(interface)})

    assert found == [("EFA001", "Efa"), ("EFA002", "Other")]


def test_group_of_somebody_else_may_be_the_good_one() -> None:
    interface = {"InterfaceType": "efa", "Groups": [SELF, "sg-0123456789abcdef0"]}

    assert codes({**VPC, "Efa": group(), "Template": launch_template(interface)}) == []


def test_hyperpod_needs_the_rules_in_every_group() -> None:
    network = {"SecurityGroupIds": [SELF, OTHER], "Subnets": []}
    cluster = resource("SageMaker::Cluster", VpcConfig=network)
    resources = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa"), "Other": group(), "Cluster": cluster}

    assert codes(resources) == [("EFA001", "Other"), ("EFA002", "Other")]


def test_message_names_the_rules_that_there_are() -> None:
    resources = {**VPC, "Efa": group(ingress=[TCP | FROM_SELF], egress=GOOD_OUT)}

    (finding,) = judged(resources)

    assert "ingress: TCP 0-65535 from itself" in finding.message
