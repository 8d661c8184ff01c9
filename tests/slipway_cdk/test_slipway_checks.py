"""The rule pack as others use it: registered with the CDK, on stacks that are not ours."""

from __future__ import annotations

import ast
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from launcher.failure_modes.registry import CATALOGUE
from slipway_cdk.efa_security_group import EfaSecurityGroup
from slipway_cdk.slipway_checks import PREVENTS, RULES, SlipwayChecks
from tests.slipway_cdk.checking import reported, violations, vpc_of_others
from tests.stacks.synthesis import ROOT, dev_spec, new_app, new_stack, synthesize

EVERYTHING = ec2.Port.all_traffic()


def app_of(stack: cdk.Stack) -> cdk.App:
    app = stack.node.root
    assert isinstance(app, cdk.App)
    return app


@pytest.fixture
def stack() -> cdk.Stack:
    return new_stack()


@pytest.fixture
def vpc(stack: cdk.Stack) -> ec2.IVpc:
    return vpc_of_others(stack)


def half_a_group(scope: Construct, name: str, vpc: ec2.IVpc) -> ec2.SecurityGroup:
    """A group that lets all traffic in from itself, and out only as EC2 does."""
    group = ec2.SecurityGroup(scope, name, vpc=vpc)
    group.add_ingress_rule(group, EVERYTHING)
    return group


def rule_to_itself(scope: Construct, group: ec2.SecurityGroup) -> None:
    ec2.CfnSecurityGroupEgress(
        scope,
        "ToItself",
        group_id=group.security_group_id,
        destination_security_group_id=group.security_group_id,
        ip_protocol="-1",
    )


def test_our_own_group_passes(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    EfaSecurityGroup(stack, "Efa", vpc=vpc)

    assert reported(app_of(stack)) == []


def test_rule_to_itself_beside_allow_all_outbound_is_missed(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    """The CDK drops it with a warning: aws-cdk issue 38558."""
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc, allow_all_outbound=True)
    group.connections.allow_internally(EVERYTHING)

    assert reported(app_of(stack)) == [("EFA002", "Stack/Group")]


def test_rule_to_itself_as_a_resource_beside_allow_all_outbound_passes(
    stack: cdk.Stack, vpc: ec2.IVpc
) -> None:
    rule_to_itself(stack, half_a_group(stack, "Group", vpc))

    assert reported(app_of(stack)) == []


def test_narrow_way_out_passes(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc, allow_all_outbound=False)
    group.connections.allow_internally(EVERYTHING)
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443))

    assert reported(app_of(stack)) == []


def test_group_without_a_way_out_is_found(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc, allow_all_outbound=False)
    group.connections.allow_internally(EVERYTHING)

    assert reported(app_of(stack)) == [("EFA003", "Stack/Group")]


def test_all_of_tcp_is_not_all_traffic(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc, allow_all_outbound=False)
    group.connections.allow_internally(ec2.Port.all_tcp())
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443))

    assert reported(app_of(stack)) == [("EFA001", "Stack/Group"), ("EFA002", "Stack/Group")]


def test_two_groups_that_admit_each_other_are_no_group_that_admits_itself(
    stack: cdk.Stack, vpc: ec2.IVpc
) -> None:
    one, other = (ec2.SecurityGroup(stack, name, vpc=vpc) for name in ("One", "Other"))
    one.add_ingress_rule(other, EVERYTHING)
    other.add_ingress_rule(one, EVERYTHING)

    found = reported(app_of(stack))

    assert {code for code, path in found if path == "Stack/One"} == {"EFA001", "EFA002"}
    assert {code for code, path in found if path == "Stack/Other"} == {"EFA001", "EFA002"}


def test_group_of_a_web_server_is_not_judged(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    group = ec2.SecurityGroup(stack, "Web", vpc=vpc)
    group.add_ingress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443))
    group.connections.allow_internally(ec2.Port.tcp(6379))

    assert reported(app_of(stack)) == []


def test_group_that_the_author_names_is_judged_whatever_its_shape(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    group = ec2.SecurityGroup(stack, "Bare", vpc=vpc)
    pack = SlipwayChecks(stack.node.root, efa_security_groups=[group])

    assert reported(app_of(stack), pack) == [("EFA001", "Stack/Bare"), ("EFA002", "Stack/Bare")]


def test_naming_groups_spares_all_others(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    good = EfaSecurityGroup(stack, "Efa", vpc=vpc)
    half_a_group(stack, "Nodes", vpc)
    pack = SlipwayChecks(stack.node.root, efa_security_groups=[good])

    assert reported(app_of(stack), pack) == []


def test_group_of_another_account_that_the_author_names_is_not_judged(
    stack: cdk.Stack, vpc: ec2.IVpc
) -> None:
    ec2.SecurityGroup(stack, "Any", vpc=vpc)
    known = ec2.SecurityGroup.from_security_group_id(stack, "Imported", "sg-0123456789abcdef0")
    pack = SlipwayChecks(stack.node.root, efa_security_groups=[known])

    assert reported(app_of(stack), pack) == []


@pytest.mark.parametrize("references", ["strong", "weak"])
def test_rules_of_another_stack_count(references: str) -> None:
    app = cdk.App(context={"@aws-cdk/core:defaultCrossStackReferences": references})
    first, second = cdk.Stack(app, "First"), cdk.Stack(app, "Second")
    group = half_a_group(first, "Group", vpc_of_others(first))
    rule_to_itself(second, group)

    assert reported(app) == []


def test_groups_of_nested_stacks_are_judged(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    nested = cdk.NestedStack(stack, "Nested")
    half_a_group(nested, "Group", vpc)

    assert reported(app_of(stack)) == [("EFA002", "Stack/Nested/Group")]


def test_rule_in_a_nested_stack_counts_for_the_group_outside(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    rule_to_itself(cdk.NestedStack(stack, "Nested"), half_a_group(stack, "Group", vpc))

    assert reported(app_of(stack)) == []


def test_stacks_of_a_stage_are_judged() -> None:
    app = new_app()
    stack = cdk.Stack(cdk.Stage(app, "Prod"), "Stack")
    half_a_group(stack, "Group", vpc_of_others(stack))

    assert reported(app) == [("EFA002", "Prod/Stack/Group")]


def test_scope_confines_what_is_reported() -> None:
    app = new_app()
    stacks = [cdk.Stack(app, name) for name in ("Training", "TrainingNot")]
    for stack in stacks:
        half_a_group(stack, "Group", vpc_of_others(stack))

    assert reported(app, SlipwayChecks(stacks[0])) == [("EFA002", "Training/Group")]


def test_finding_is_accepted_beside_the_resource(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    for name in ("Accepted", "NotAccepted"):
        group = half_a_group(stack, name, vpc)
        if name == "Accepted":
            accepted = cdk.Acknowledgment(id="Slipway::EFA002", reason="these hosts exchange nothing")
            cdk.Validations.of(group).acknowledge(accepted)

    assert reported(app_of(stack)) == [("EFA002", "Stack/NotAccepted")]


def test_error_fails_the_synthesis(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    half_a_group(stack, "Group", vpc)
    cdk.Validations.of(app_of(stack)).add_plugins(SlipwayChecks())

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app_of(stack).synth()


def test_violation_says_what_is_wrong_what_would_happen_and_what_to_do(
    stack: cdk.Stack, vpc: ec2.IVpc
) -> None:
    half_a_group(stack, "Group", vpc)

    (violation,) = violations(app_of(stack))

    mode = CATALOGUE["EFA002"]
    assert "egress: all traffic to 0.0.0.0/0" in violation["description"]
    assert mode.cause in violation["description"]
    assert violation["suggestedFix"] == mode.remedy
    assert violation["severity"] == "error"


def test_unknown_instance_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"ml\.p5\.48xlarge"):
        SlipwayChecks(hosts={"ml.p5.48xlargo": 2})


@pytest.mark.few_cases("with Lustre-with NAT", "without-isolated")
@pytest.mark.parametrize("nat", [True, False], ids=["with NAT", "isolated"])
@pytest.mark.parametrize("lustre", [True, False], ids=["with Lustre", "without"])
def test_our_own_clusters_pass(nat: bool, lustre: bool) -> None:
    changes = {"vpc": {"cidr": "10.64.0.0/20", "nat": nat}, **({} if lustre else {"lustre": None})}

    assert reported(synthesize(dev_spec(**changes)).app) == []


def test_every_rule_finds_a_mode_of_its_own() -> None:
    assert len({mode.code for mode in RULES.values()}) == len(RULES)
    assert set(PREVENTS) <= set(RULES.values())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "slipway_cdk" / "checks").glob("*.py")), ids=lambda path: path.stem
)
def test_rule_imports_neither_the_cdk_nor_more_than_the_ground_floor(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {module for module in modules if module.startswith(("launcher", "stacks", "slipway"))}

    assert not {module for module in modules if module.split(".")[0] in ("aws_cdk", "cdk_nag", "jsii")}
    allowed = ("slipway_cdk.checks", "launcher.cluster", "launcher.failure_modes")
    assert all(module.startswith(allowed) for module in ours)
