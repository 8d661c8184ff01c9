"""A HyperPod cluster with Slurm in the network of a cluster, with its file system on every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct
from constructs.mounted_file_system import MountedFileSystem
from constructs.permissions import (
    INLINE_POLICIES_SIZE,
    acknowledge_wildcards,
    add_further_policies,
    data_permissions,
    key_arn,
    packed,
    permissions_of,
    policy_document,
    words_of,
)

from launcher.cluster.hyperpod_section import HyperPodGroup, HyperPodSpec
from launcher.cluster.names import HYPERPOD_MOUNT, SAGEMAKER_PRINCIPAL, hyperpod_name
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT,)

NODE_SCRIPT = Path(__file__).with_name("hyperpod_node.sh")
"""What runs on every new node, after HyperPod's image has set it up."""

_NODE_TYPES = {"controller": "Controller", "login": "Login", "compute": "Compute"}

_PREFIX = "slipway/hyperpod"
"""Below it lie the scripts of nodes in the bucket for assets, each set in a folder that is named by what is
in it."""


class HyperPodCluster(Construct):
    """A HyperPod cluster that CloudFormation keeps as the cluster file says, and the role of its nodes.

    HyperPod's image starts Slurm, with a partition for each compute group, and mounts the file system; a
    script of ours then looks whether it is there, and lets people in. All nodes stand in one subnet, that of
    the file system's zone, in the hosts' group, which EFA passes.

    Nothing of AWS's policies is attached: the role has what `AmazonSageMakerClusterInstanceRolePolicy` has,
    bound to this cluster, what nodes in a VPC need besides, and the data that training jobs may use. Source:
    SageMaker developer guide, sagemaker-hyperpod-prerequisites-iam, smcluster-getting-started-slurm-cli and
    sagemaker-hyperpod-ref.

    Attributes:
        cluster_arn: the cluster; its last part is the id by which Systems Manager knows its nodes.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        hyperpod: HyperPodSpec,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        file_system: MountedFileSystem,
        code: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        data_buckets: Sequence[s3.IBucket] = (),
        encryption_key: kms.IKey | None = None,
        read_with: Sequence[str] = (),
        written_with: Sequence[str] = (),
    ) -> None:
        """Create the role and the cluster.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: names the cluster in SageMaker, `slipway-NAME`.
            hyperpod: the section of the cluster file.
            subnet: where the nodes stand, in the zone of the file system.
            security_group: the group of the nodes, which lets EFA pass among them.
            file_system: what every node has at /fsx.
            code: bucket that jobs read.
            checkpoints: bucket that jobs read, write and delete from.
            output: bucket that jobs read and write.
            data_buckets: other buckets that jobs read.
            encryption_key: the key of the buckets and of the nodes' second volumes, if it is the
                account's own.
            read_with: ARNs of further keys, of buckets that jobs read.
            written_with: the same of buckets that they write into.
        """
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        life_cycle, scripts = _node_scripts(self, hyperpod.ssh_keys)
        words = words_of(stack, code=code, checkpoints=checkpoints, output=output, key=encryption_key) | {
            "subnets": [subnet.subnet_id],
            "security_groups": [security_group.security_group_id],
            "read_with": read_with,
            "written_with": written_with,
            "scripts": scripts,
            "scripts_folder": _PREFIX,
            "hyperpod_logs": f"/aws/sagemaker/Clusters/{hyperpod_name(cluster_name)}",
        }
        permissions = [*permissions_of("node", words), *data_permissions("job_data", data_buckets, stack)]
        inline, *others = packed(permissions, stack, first=INLINE_POLICIES_SIZE)
        what = "What a node of this cluster's HyperPod cluster may do"
        role = iam.Role(
            self,
            "Role",
            description=what,
            assumed_by=iam.ServicePrincipal(
                SAGEMAKER_PRINCIPAL, conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
            inline_policies={"Node": policy_document(inline)},
        )
        acknowledge_wildcards(role, inline)
        add_further_policies(self, "Role", others, lambda _: f"{what}, further data buckets", roles=[role])
        volume_key = None if encryption_key is None else key_arn(encryption_key, stack)
        lustre = sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty(
            fsx_lustre_config=sagemaker.CfnCluster.ClusterFsxLustreConfigProperty(
                dns_name=file_system.dns_name(stack),
                mount_name=file_system.mount_name,
                mount_path=HYPERPOD_MOUNT,
            )
        )
        cluster = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=hyperpod_name(cluster_name),
            # Their own references, not weak ones: a change set plans to replace a cluster whose subnet it
            # cannot know (stacks/slipway_app.py).
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                subnets=[subnet.subnet_id], security_group_ids=[security_group.security_group_id]
            ),
            node_recovery=hyperpod.recovery.capitalize(),
            node_provisioning_mode="Continuous" if hyperpod.continuous else None,
            # With continuous provisioning no strategy may be given (sagemaker-hyperpod-scaling-slurm).
            orchestrator=None
            if hyperpod.continuous
            else sagemaker.CfnCluster.OrchestratorProperty(
                slurm=sagemaker.CfnCluster.ClusterOrchestratorSlurmConfigProperty(
                    slurm_config_strategy="Managed"
                )
            ),
            instance_groups=[
                _group(each, role.role_arn, life_cycle, [lustre, *_second_volume(each, volume_key)])
                for each in hyperpod.all_groups
            ],
        )
        self.cluster_arn = cluster.attr_cluster_arn


def _group(
    group: HyperPodGroup,
    role_arn: str,
    life_cycle: sagemaker.CfnCluster.ClusterLifeCycleConfigProperty,
    storage_of_nodes: Sequence[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty],
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    return sagemaker.CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=group.instance_type,
        instance_count=group.count,
        execution_role=role_arn,
        life_cycle_config=life_cycle,
        instance_storage_configs=storage_of_nodes,
        slurm_config=sagemaker.CfnCluster.ClusterSlurmConfigProperty(
            node_type=_NODE_TYPES[group.role],
            partition_names=[group.slurm_partition] if group.role == "compute" else None,
        ),
        training_plan_arn=group.training_plan,
        on_start_deep_health_checks=group.deep_health_checks or None,
        threads_per_core=group.threads_per_core,
    )


def _second_volume(
    group: HyperPodGroup, key: str | None
) -> Iterator[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
    if group.volume_gib is not None:
        yield sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty(
            ebs_volume_config=sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty(
                volume_size_in_gb=group.volume_gib, volume_kms_key_id=key
            )
        )


def _node_scripts(
    scope: Construct, ssh_keys: Sequence[str]
) -> tuple[sagemaker.CfnCluster.ClusterLifeCycleConfigProperty, str]:
    """Where HyperPod finds the node's script, and the ARN of the bucket.

    The files are assets of the deployment, as templates are: no function copies them anywhere. HyperPod takes
    all that lies in a folder, so each set of files has one of its own.
    """
    stack = cdk.Stack.of(scope)
    files = {
        NODE_SCRIPT.name: NODE_SCRIPT.read_text("utf-8"),
        "authorized_keys": "".join(f"{key}\n" for key in ssh_keys),
    }
    digest = sha256("\0".join(f"{name}\0{content}" for name, content in files.items()).encode()).hexdigest()
    folder = f"{_PREFIX}/{digest[:32]}"
    stage = cdk.Stage.of(scope)
    assert stage is not None
    for name, content in files.items():
        staged = f"hyperpod-{digest[:32]}-{name}"
        Path(stage.asset_outdir, staged).write_text(content, "utf-8")
        location = stack.synthesizer.add_file_asset(
            # To which the CDK appends the ending of the file, and calls the object so.
            source_hash=f"{folder}/{Path(name).stem}",
            file_name=staged,
            packaging=cdk.FileAssetPackaging.FILE,
            display_name=f"{name} of HyperPod's nodes",
        )
    bucket = _without_substitution(location.bucket_name, stack)
    life_cycle = sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
        source_s3_uri=f"s3://{bucket}/{folder}/", on_init_complete=NODE_SCRIPT.name
    )
    return life_cycle, f"arn:{stack.partition}:s3:::{bucket}"


def _without_substitution(name: str, stack: cdk.Stack) -> str:
    """The name of the bucket for assets as policies here are read, with references in place of Fn::Sub."""
    resolved = stack.resolve(name)
    if isinstance(resolved, str):
        return resolved
    values = {"AccountId": stack.account, "Region": stack.region, "Partition": stack.partition}
    text = str(resolved["Fn::Sub"])
    for pseudo, value in values.items():
        text = text.replace(f"${{AWS::{pseudo}}}", value)
    return text
