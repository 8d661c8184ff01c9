"""The security group that lets Elastic Fabric Adapter traffic pass between training hosts."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from launcher.cluster.traffic import HTTPS_PORT
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (
    network.NO_INGRESS_FROM_ITSELF,
    network.NO_EGRESS_TO_ITSELF,
    network.NO_WAY_OUT,
)


_NOTHING = ec2.CfnSecurityGroup.EgressProperty(
    ip_protocol="icmp",
    from_port=252,
    to_port=86,
    cidr_ip="255.255.255.255/32",
    description="Disallow all traffic",
)
"""An ICMP type that does not exist, to an address that nobody has: as the CDK closes a group."""


class EfaSecurityGroup(ec2.SecurityGroup):
    """A security group with exactly the three rules that EFA and a training job need.

    All traffic from the group itself, all traffic to the group itself, all traffic to any IPv4
    address. The last does not stand for the second: EFA traffic is not IP traffic, so only a rule
    that names a group matches it. Source: EC2 user guide, efa-start (the group must allow all
    inbound and outbound traffic to and from itself); awslabs/awsome-distributed-ai issue 546.

    The rules are resources of their own, because `allow_all_outbound=True` drops the rule to itself
    with no more than a warning (aws-cdk issue 38558).

    In an isolated network the third rule is HTTPS to S3 instead, whose gateway endpoint has no group
    to name; `ServiceEndpoints` and `TrainingFileSystem` add the rules to their own groups. There the
    group also has a rule within its own resource, which matches nothing: EC2 lets all traffic out of a
    group that is created without egress, and that separate rules take this away again is not promised
    (CloudFormation reference, AWS::EC2::SecurityGroup). The rule to S3 does not take its place: in a
    group that is deployed it would be added while the separate one is still there, which is ignored as a
    duplicate, and go when that one is deleted (cloudformation-coverage-roadmap issues 612 and 1534).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        isolated: bool = False,
        s3_prefix_list_id: str | None = None,
        retain: bool = False,
    ) -> None:
        """Create the group and its rules.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc: the VPC that the training hosts run in.
            isolated: whether there is no way out to any address.
            s3_prefix_list_id: with `isolated`, the prefix list of S3 to which HTTPS is confined; without
                it HTTPS may go to any address, and the routes decide what can be reached.
            retain: whether the group and these rules outlive the stack, for a file system that does.
        """
        super().__init__(
            scope,
            id,
            vpc=vpc,
            description="Training hosts: EFA between them, and the way out",
            allow_all_outbound=False,
            disable_inline_rules=True,
        )
        self._open(isolated, s3_prefix_list_id)
        if retain:
            # Rules that are added later, such as to the endpoints, go with what they lead to: EC2 deletes
            # no group that a rule of another still names.
            for each in self.node.children:
                if isinstance(each, cdk.CfnResource):
                    each.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)

    def _open(self, isolated: bool, s3_prefix_list_id: str | None) -> None:
        everything = ec2.Port.all_traffic()
        self.add_ingress_rule(self, everything, "EFA from the other hosts")
        self.add_egress_rule(self, everything, "EFA to the other hosts")
        if isolated:
            s3 = ec2.Peer.prefix_list(s3_prefix_list_id) if s3_prefix_list_id else ec2.Peer.any_ipv4()
            self.add_egress_rule(s3, ec2.Port.tcp(HTTPS_PORT), "S3 through its gateway endpoint")
            resource = self.node.default_child
            assert isinstance(resource, ec2.CfnSecurityGroup)
            resource.security_group_egress = [_NOTHING]
            return
        self.add_egress_rule(ec2.Peer.any_ipv4(), everything, "S3, ECR, logs and the like")

        egress = [child for child in self.node.children if isinstance(child, ec2.CfnSecurityGroupEgress)]
        to_any_address = next(rule for rule in egress if rule.cidr_ip)
        for rule in egress:
            if rule is not to_any_address:
                # Adding a separate egress rule can strip an allow-all rule that is already there
                # (aws-cdk issues 987 and 22140), so the way out is added last.
                to_any_address.node.add_dependency(rule)
