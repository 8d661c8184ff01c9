"""The rule pack for other people's stacks: what would make distributed training hang, at synthesis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import IConstruct

from launcher.cluster.instances import instance_facts, nearest_instance_types
from launcher.failure_modes import network, storage
from launcher.failure_modes.model import FailureMode, Finding, Severity
from slipway_cdk.checks.app import App, Declaration
from slipway_cdk.checks.efa_groups import (
    efa_groups_admit_all_traffic_from_themselves,
    efa_groups_let_all_traffic_out_to_themselves,
)
from slipway_cdk.checks.lustre import (
    NO_SUCH_FILE_SYSTEM,
    lustre_file_systems_have_a_size_that_exists,
    lustre_ports_are_open_both_ways,
    lustre_stands_in_a_zone_of_the_jobs,
)
from slipway_cdk.checks.templates import Resolver, Resource, Template, read_template
from slipway_cdk.checks.training_subnets import (
    training_hosts_have_a_way_out,
    training_subnets_hold_the_planned_hosts,
)

RULES: Mapping[Callable[[App], Iterator[Finding]], FailureMode] = {
    efa_groups_admit_all_traffic_from_themselves: network.NO_INGRESS_FROM_ITSELF,
    efa_groups_let_all_traffic_out_to_themselves: network.NO_EGRESS_TO_ITSELF,
    training_hosts_have_a_way_out: network.NO_WAY_OUT,
    training_subnets_hold_the_planned_hosts: network.TOO_FEW_ADDRESSES,
    lustre_ports_are_open_both_ways: storage.LUSTRE_PORTS_CLOSED,
    lustre_stands_in_a_zone_of_the_jobs: storage.LUSTRE_IN_ANOTHER_ZONE,
    lustre_file_systems_have_a_size_that_exists: NO_SUCH_FILE_SYSTEM,
}
"""Every rule with the mode that it finds."""

PREVENTS: tuple[FailureMode, ...] = (
    network.NO_INGRESS_FROM_ITSELF,
    network.NO_EGRESS_TO_ITSELF,
    network.NO_WAY_OUT,
    network.TOO_FEW_ADDRESSES,
    storage.LUSTRE_PORTS_CLOSED,
)
"""What a stack that passes cannot meet. The zone rule is not claimed: a job may still name another
zone's subnet, which only its own file tells."""


@jsii.implements(cdk.IPolicyValidationPlugin)
class SlipwayChecks:
    """Checks any CDK app for what makes distributed training stall: `add_plugins(SlipwayChecks(app))`.

        cdk.Validations.of(app).add_plugins(SlipwayChecks(app, hosts={"ml.p5.48xlarge": 16}))

    An error fails the synthesis, as with cdk-nag. A finding is accepted beside the resource, or any
    construct above it, under the pack's name:

        cdk.Validations.of(group).acknowledge(
            cdk.Acknowledgment(id="Slipway::EFA002", reason="its hosts exchange no traffic")
        )

    Which groups and subnets are judged, `slipway_cdk.checks.app` tells; name them where that is not
    what is meant. A value that is known only at deployment is given the benefit of the doubt.

    It is not a subclass of cdk-nag's `NagPack`: that looks at one resource at a time, while a group's
    rules, a subnet's routes and a file system's ports are resources of their own, often of another
    stack, and it has one text per rule, where these name the value at fault.
    """

    def __init__(
        self,
        scope: IConstruct | None = None,
        *,
        efa_security_groups: Sequence[ec2.ISecurityGroup] = (),
        training_subnets: Sequence[ec2.ISubnet] = (),
        hosts: Mapping[str, int] | None = None,
    ) -> None:
        """Say what to judge.

        Args:
            scope: findings are reported for resources below it; by default for all. References are
                followed to the other stacks all the same.
            efa_security_groups: the groups of training hosts; then no other group is judged because
                of its shape. Each must have its own rules.
            training_subnets: where jobs run; by default found from the groups and file systems.
            hosts: how many hosts of which SageMaker instance type are to fit into one subnet at the
                same time; without them the size of subnets is not judged.

        Raises:
            ValueError: an instance type does not exist.
        """
        self._scope = scope
        self._groups, self._subnets = tuple(efa_security_groups), tuple(training_subnets)
        self._hosts = dict(hosts or {})
        for instance_type in self._hosts:
            if instance_facts(instance_type) is None:
                nearest = ", ".join(nearest_instance_types(instance_type)) or "ml.p5.48xlarge"
                raise ValueError(
                    f"{instance_type!r} is not a training instance type; use one such as {nearest}"
                )

    @property
    def name(self) -> str:
        """The pack's name in the report and in acknowledgments."""
        return "Slipway"

    @property
    def version(self) -> str:
        """The version of the pack."""
        return "0.1.0"

    @property
    def rule_ids(self) -> list[str]:
        """The codes that it may report."""
        return [mode.code for mode in RULES.values()]

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Judge the synthesized templates; the CDK calls this at the end of the synthesis."""
        resolver = Resolver(
            read_template(Path(each.template_path), each.stack_construct_path, each.region)
            for each in context.stack_templates
        )
        declared = Declaration(
            efa_groups=self._ids(resolver, [(each, each.security_group_id) for each in self._groups]),
            training_subnets=self._ids(resolver, [(each, each.subnet_id) for each in self._subnets]),
            hosts=self._hosts,
        )
        resources = {resource.id: resource for resource in resolver.resources}
        found = [
            (finding, resources[str(finding.subject)])
            for finding in findings(App(resolver.resources, declared))
            if self._reports(resources[str(finding.subject)].template)
        ]
        return cdk.PolicyValidationPluginReport(
            success=not any(finding.severity is Severity.ERROR for finding, _ in found),
            violations=[_violation(finding, resource) for finding, resource in found],
        )

    def _reports(self, template: Template) -> bool:
        path = self._scope.node.path if self._scope else ""
        return not path or f"{template.stack}/".startswith(f"{path}/")

    def _ids(self, resolver: Resolver, named: Iterable[tuple[IConstruct, str]]) -> tuple[str, ...]:
        owned = ((cdk.Stack.of(construct), token) for construct, token in named)
        return tuple(str(resolver.value(own.template_file, own.resolve(token))) for own, token in owned)


def findings(app: App) -> Iterator[Finding]:
    """What all rules find in an app, a rule after the other."""
    for rule in RULES:
        yield from rule(app)


def _violation(finding: Finding, resource: Resource) -> cdk.PolicyViolation:
    at: dict[str, Any] = {"template_path": resource.template.path, "resource_logical_id": resource.logical_id}
    return cdk.PolicyViolation(
        rule_name=finding.code,
        description=finding.message,
        fix=finding.remedy,
        severity=finding.severity.value,
        rule_metadata={"source": finding.source},
        violating_resources=[cdk.PolicyViolatingResource(locations=["Properties"], **at)],
    )
