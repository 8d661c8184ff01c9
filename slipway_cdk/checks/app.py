"""What the rules judge: the resources of an app, what its author said, and what follows from both.

A stack does not say that a group is for EFA or a subnet for training: training jobs are not resources.
So the groups and subnets that are judged are found in this order.

1. What the author named (`Declaration`), and then nothing is guessed from shapes.
2. What is visibly used for it: network interfaces and launch templates of type `efa` or `efa-only`,
   Batch compute environments that use these, SageMaker HyperPod clusters, Lustre file systems (those
   with EFA for the groups, all of them for the subnet).
3. By shape. A group that lets all traffic, or all of TCP, pass between its own members in at least one
   direction; two groups that admit all of each other's traffic; and the private subnets of the VPCs of
   such groups. A narrow rule to itself, such as that of a database or of Lustre, is not a sign of EFA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from launcher.cluster.traffic import Passage, SecurityGroup, SecurityGroupRule
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from slipway_cdk.checks.security_groups import security_groups
from slipway_cdk.checks.subnets import TemplateEndpoint, TemplateSubnet, endpoints, subnets
from slipway_cdk.checks.templates import Resource

_EFA = ("efa", "efa-only")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the author of the app declares: ids of groups and subnets, and hosts by instance type."""

    efa_groups: tuple[str, ...] = ()
    training_subnets: tuple[str, ...] = ()
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EfaUse:
    """Security groups that stand together on EFA interfaces.

    `each`: every one of them must have the rules, as on HyperPod; else one is enough.
    """

    groups: tuple[str, ...]
    each: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """Subnets of which jobs run in one; `each` must do, or, where it is not known which, one of them."""

    subnets: tuple[TemplateSubnet, ...]
    each: bool


class App:
    """The resources of an app, and what is judged of them.

    Attributes:
        resources: all of them.
        declared: what the author said of it.
    """

    def __init__(self, resources: tuple[Resource, ...], declared: Declaration | None = None) -> None:
        """Take resolved resources."""
        self.resources = resources
        self.declared = declared or Declaration()

    @cached_property
    def groups(self) -> Mapping[str, SecurityGroup]:
        """The security groups of the app by id."""
        return security_groups(self.resources)

    @cached_property
    def subnets(self) -> Mapping[str, TemplateSubnet]:
        """The subnets of the app by id."""
        return subnets(self.resources)

    @cached_property
    def endpoints(self) -> list[TemplateEndpoint]:
        """The VPC endpoints of the app."""
        return endpoints(self.resources)

    @cached_property
    def lustre(self) -> list[Resource]:
        """The Lustre file systems of the app."""
        return [
            each
            for each in self.resources
            if each.type == "AWS::FSx::FileSystem" and each.properties.get("FileSystemType") == "LUSTRE"
        ]

    @cached_property
    def efa_uses(self) -> list[EfaUse]:
        """The groups that are judged by what EFA needs."""
        named = [EfaUse(self.declared.efa_groups, each=True)] if self.declared.efa_groups else []
        uses = [*named, *self._visible_uses()]
        if named:
            return uses
        judged = {group for use in uses for group in use.groups}
        return uses + [EfaUse((id_,), each=True) for id_ in self._shaped_for_efa() if id_ not in judged]

    @cached_property
    def efa_groups(self) -> frozenset[str]:
        """The ids in `efa_uses`."""
        return frozenset(group for use in self.efa_uses for group in use.groups)

    @cached_property
    def placements(self) -> list[Placement]:
        """The subnets that are judged."""
        if self.declared.training_subnets:
            return [Placement(self._known(self.declared.training_subnets), each=True)]
        visible = [self._known(ids) for ids in self._visible_subnets()]
        if any(visible):
            return [Placement(each, each=True) for each in dict.fromkeys(visible) if each]
        vpcs = dict.fromkeys(self.groups[id_].vpc_id for id_ in sorted(self.efa_groups) if id_ in self.groups)
        private = ([s for s in self.subnets.values() if s.vpc_id == vpc and not s.public] for vpc in vpcs)
        return [Placement(tuple(each), each=False) for each in private if each]

    def _known(self, ids: Any) -> tuple[TemplateSubnet, ...]:
        return tuple(self.subnets[id_] for id_ in ids if id_ in self.subnets)

    def _visible_uses(self) -> Iterator[EfaUse]:
        templates = {each.id for each in self.resources if any(map(_is_efa, _template_interfaces(each)))}
        for each in self.resources:
            properties = each.properties
            for interface in (*_template_interfaces(each), properties):
                if _is_efa(interface):
                    yield from _use(interface.get("Groups") or interface.get("GroupSet"))
            if each.type == "AWS::Batch::ComputeEnvironment":
                batch = properties.get("ComputeResources", {})
                if batch.get("LaunchTemplate", {}).get("LaunchTemplateId") in templates:
                    yield from _use(batch.get("SecurityGroupIds"))
            for network in _hyperpod_networks(each):
                yield from _use(network.get("SecurityGroupIds"), each=True)
        for each in self.lustre:
            if each.properties.get("LustreConfiguration", {}).get("EfaEnabled") in (True, "true"):
                yield from _use(each.properties.get("SecurityGroupIds"))

    def _visible_subnets(self) -> Iterator[tuple[str, ...]]:
        for each in self.resources:
            for interface in (*_template_interfaces(each), each.properties):
                if _is_efa(interface) and "SubnetId" in interface:
                    yield (interface["SubnetId"],)
            for network in _hyperpod_networks(each):
                yield _ids(network.get("Subnets"))
        for each in self.lustre:
            yield _ids(each.properties.get("SubnetIds"))

    def _shaped_for_efa(self) -> Iterator[str]:
        wide = {
            group.id: {peer for rule in group.rules if _is_wide(rule) for peer in rule.groups}
            for group in self.groups.values()
        }
        for id_, peers in wide.items():
            if id_ in peers or any(id_ in wide.get(peer, ()) for peer in peers):
                yield id_


def finding(mode: FailureMode, resource_id: str, what: str, *, severity: Severity | None = None) -> Finding:
    """What is wrong with a resource, in the catalogue's words but for the value that is at fault."""
    message = f"{what[0].upper()}{what[1:]}. {mode.cause}"
    return mode.finding(Stage.PROVISION, message, severity=severity, subject=resource_id)


def _is_wide(rule: SecurityGroupRule) -> bool:
    """Whether all traffic, or at least all of TCP, passes or may pass."""
    return rule.tcp_passage(1, 65535) is not Passage.CLOSED


def _use(groups: Any, *, each: bool = False) -> Iterator[EfaUse]:
    if ids := _ids(groups):
        yield EfaUse(ids, each)


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _is_efa(interface: Any) -> bool:
    return isinstance(interface, Mapping) and interface.get("InterfaceType") in _EFA


def _template_interfaces(resource: Resource) -> list[Mapping[str, Any]]:
    if resource.type != "AWS::EC2::LaunchTemplate":
        return []
    interfaces = resource.properties.get("LaunchTemplateData", {}).get("NetworkInterfaces", [])
    return interfaces if isinstance(interfaces, list) else []


def _hyperpod_networks(resource: Resource) -> Iterator[Mapping[str, Any]]:
    if resource.type != "AWS::SageMaker::Cluster":
        return
    groups = resource.properties.get("InstanceGroups", [])
    overrides = [each.get("OverrideVpcConfig") for each in groups if isinstance(each, Mapping)]
    yield from (each for each in (resource.properties.get("VpcConfig"), *overrides) if each)
