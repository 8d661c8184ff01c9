"""HyperPod clusters: their nodes are Running at once, each with an interface; changes are refused as by AWS.

moto keeps the cluster and answers who asks for its nodes; it knows neither Slurm, nor a change of a cluster.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

from moto.sagemaker.models import Cluster, ClusterNode, sagemaker_backends

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Kind, Properties, Refused, Resource, as_list, tags_of

Group = dict[str, Any]


class HyperPod(Cluster):
    """A cluster of moto's with an id of its own in the ARN, and a network interface for each node."""

    def __init__(self, account: Account, properties: Properties) -> None:
        super().__init__(
            cluster_name=properties["ClusterName"],
            region_name=account.region,
            account_id=account.id,
            instance_groups=[],
            vpc_config=dict(properties["VpcConfig"]),
            tags=as_list(tags_of(properties)),
        )
        self.arn = account.arn("sagemaker", f"cluster/{uuid4().hex[:12]}")
        self.account = account
        self.interfaces: dict[str, str] = {}  # by node
        self.groups: list[Group] = []
        self.scale(properties["InstanceGroups"])

    def scale(self, groups: list[Group]) -> None:
        """Have the nodes that these groups have; those that stay are the same as before."""
        _check(groups)
        kept = {each["InstanceGroupName"]: each for each in self.groups}
        for each in groups:
            old = kept.get(each["InstanceGroupName"], each)
            if _fixed(old) != _fixed(each):
                raise Refused(
                    f"ValidationException: the group {each['InstanceGroupName']} is of {_fixed(old)}."
                )
        self.groups = groups
        missing = {each["InstanceGroupName"]: int(each["InstanceCount"]) for each in groups}
        for name, node in list(self.nodes.items()):
            if missing.get(node.instance_group_name, 0) > 0:
                missing[node.instance_group_name] -= 1
            else:
                self._drop(name)
        for each in groups:
            for _ in range(missing[each["InstanceGroupName"]]):
                self._add(each)

    def describe(self) -> dict[str, Any]:
        """As moto, with the groups."""
        counts = Counter(each.instance_group_name for each in self.nodes.values())
        groups = [
            {
                **{name: value for name, value in each.items() if name != "InstanceCount"},
                "CurrentCount": counts[each["InstanceGroupName"]],
                "TargetCount": int(each["InstanceCount"]),
            }
            for each in self.groups
        ]
        return {**super().describe(), "InstanceGroups": groups}

    def delete(self) -> None:
        """Give back all interfaces."""
        for name in list(self.nodes):
            self._drop(name)

    def _add(self, group: Group) -> None:
        node = ClusterNode(
            region_name=self.region_name,
            account_id=self.account.id,
            cluster_name=self.cluster_name,
            instance_group_name=group["InstanceGroupName"],
            instance_type=group["InstanceType"],
            life_cycle_config=group["LifeCycleConfig"],
            execution_role=group["ExecutionRole"],
            node_id=f"i-{uuid4().hex[:17]}",
        )
        made = self.account.client("ec2").create_network_interface(
            SubnetId=self.vpc_config["Subnets"][0],
            Groups=list(self.vpc_config["SecurityGroupIds"]),
            Description=f"HyperPod {self.cluster_name}",
        )
        self.nodes[node.instance_id] = node
        self.interfaces[node.instance_id] = made["NetworkInterface"]["NetworkInterfaceId"]

    def _drop(self, name: str) -> None:
        del self.nodes[name]
        self.account.client("ec2").delete_network_interface(NetworkInterfaceId=self.interfaces.pop(name))


class HyperPodKind(Kind):
    type = "AWS::SageMaker::Cluster"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        clusters = sagemaker_backends[account.id][account.region].clusters
        if properties["ClusterName"] in clusters:
            raise Refused(f"ResourceInUse: a cluster {properties['ClusterName']} is there already.")
        made = HyperPod(account, properties)
        # By its name as by its ARN, of which moto takes the last part.
        clusters[made.cluster_name] = clusters[made.arn.rpartition("/")[2]] = made
        return Resource(made.arn, properties, {"ClusterArn": made.arn})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        mode = "NodeProvisioningMode"
        if old.properties.get(mode) != properties.get(mode):
            raise Refused("ValidationException: NodeProvisioningMode cannot be changed on a Slurm cluster.")
        made = _cluster(account, old)
        made.scale(list(properties["InstanceGroups"]))
        made.tags = as_list(tags_of(properties))

    def delete(self, account: Account, old: Resource) -> None:
        made = _cluster(account, old)
        made.delete()
        for name in (made.cluster_name, made.arn.rpartition("/")[2]):
            del sagemaker_backends[account.id][account.region].clusters[name]


def _check(groups: list[Group]) -> None:
    """What CreateCluster and UpdateCluster refuse of groups for Slurm (SageMaker developer guide,
    smcluster-getting-started-slurm-cli, common validation errors)."""
    kinds = [each["SlurmConfig"]["NodeType"] for each in groups]
    if kinds.count("Controller") != 1:
        raise Refused(
            "ValidationException: Cluster must have exactly one InstanceGroup with Controller node type"
        )
    for each in groups:
        slurm, life_cycle = each["SlurmConfig"], each.get("LifeCycleConfig", {})
        if (slurm["NodeType"] == "Compute") != bool(slurm.get("PartitionNames")):
            raise Refused("ValidationException: Partitions can only be assigned to Compute node types")
        if "OnInitComplete" in life_cycle and not life_cycle.get("SourceS3Uri"):
            raise Refused("ValidationException: LifeCycleConfig for instance group is incomplete")


def _fixed(group: Group) -> tuple[str, str]:
    """What a group keeps (the same, UpdateCluster and SlurmConfig)."""
    return group["InstanceType"], group["SlurmConfig"]["NodeType"]


def _cluster(account: Account, resource: Resource) -> HyperPod:
    found = sagemaker_backends[account.id][account.region].clusters[resource.properties["ClusterName"]]
    assert isinstance(found, HyperPod)
    return found
