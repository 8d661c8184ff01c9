"""From a cluster file to the stacks of a cluster: what `app.py` and the tests have in common.

References to the network are exports and imports (`defaultCrossStackReferences: strong` in cdk.json):
nothing takes a subnet away from under a file system, and with weak ones every change set plans to replace
what they feed, such as that file system (aws-cdk issue 38829).

References to what may go, or be replaced, while the cluster stays are weak (`read_weakly`): file system,
buckets, key, role, queue, topic and controller. They feed policies, alarms, patterns of events, variables
of the controller and the manifest, all of which are updated in place. What is read is exported all the
same, for the stacks of a cluster that was deployed when these references were imports; such a cluster is
deployed once as it is before a part goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from launcher.cluster.names import CLUSTER_TAG, PARTS, stack_name
from launcher.cluster.specification import ClusterSpec
from stacks.access import AccessStack
from stacks.managed import ManagedStack
from stacks.manifest import ManifestStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.schedulers import HyperPodStack, QueueStack
from stacks.storage import StorageStack


@dataclass(frozen=True, slots=True)
class ClusterStacks:
    """The stacks of one cluster, in the order in which they are deployed.

    All of them are always there; one whose part the cluster file does not ask for has nothing but a resource
    that does nothing.
    """

    network: NetworkStack
    storage: StorageStack
    queue: QueueStack
    hyperpod: HyperPodStack
    access: AccessStack
    observability: ObservabilityStack
    managed: ManagedStack
    manifest: ManifestStack

    @property
    def in_order(self) -> tuple[cdk.Stack, ...]:
        """All of them, the first to be deployed first."""
        return tuple(getattr(self, part) for part in PARTS)


def add_stacks(app: cdk.App, spec: ClusterSpec) -> ClusterStacks:
    """Add the stacks of a cluster to the app, all in the region of the cluster file.

    The account is that of the cluster file; where it names none, it is left open: the one whose
    credentials `cdk deploy` runs with.
    """
    env = cdk.Environment(account=spec.account, region=spec.region)

    def name(part: str) -> str:
        return stack_name(spec.name, part)

    network = NetworkStack(app, name("network"), spec=spec, env=env)
    storage = StorageStack(app, name("storage"), spec=spec, network=network, env=env)
    queue = QueueStack(app, name("queue"), spec=spec, env=env)
    hyperpod = HyperPodStack(app, name("hyperpod"), spec=spec, network=network, storage=storage, env=env)
    access = AccessStack(
        app,
        name("access"),
        spec=spec,
        network=network,
        storage=storage,
        queue=queue,
        hyperpod=hyperpod,
        env=env,
    )
    observability = ObservabilityStack(
        app, name("observability"), spec=spec, storage=storage, access=access, env=env
    )
    managed = ManagedStack(
        app,
        name("managed"),
        spec=spec,
        network=network,
        storage=storage,
        access=access,
        observability=observability,
        env=env,
    )
    manifest = ManifestStack(
        app,
        name("manifest"),
        spec=spec,
        network=network,
        storage=storage,
        access=access,
        queue=queue,
        hyperpod=hyperpod,
        observability=observability,
        managed=managed,
        env=env,
    )
    stacks = ClusterStacks(network, storage, queue, hyperpod, access, observability, managed, manifest)
    for stack in stacks.in_order:
        _fill_where_empty(stack)
    if spec.role is not None and spec.role.permissions_boundary is not None:
        for stack in stacks.in_order:
            _bound_roles(stack, spec.role.permissions_boundary)
    for key, value in {CLUSTER_TAG: spec.name, **spec.tags}.items():
        cdk.Tags.of(app).add(key, value)
    return stacks


def _fill_where_empty(stack: cdk.Stack) -> None:
    """Give a stack without a resource one that costs nothing and does nothing: CloudFormation takes no other.

    The CDK's command line leaves such a stack out, but pipelines hand templates to CloudFormation themselves.
    """
    if not any(cdk.CfnResource.is_cfn_resource(each) for each in stack.node.find_all()):
        cdk.CfnWaitConditionHandle(stack, "NothingToCreate")


def _bound_roles(stack: cdk.Stack, boundary: str) -> None:
    """Put a permissions boundary on every role of the stack, those of the CDK's own functions too."""
    policy = iam.ManagedPolicy.from_managed_policy_arn(stack, "PermissionsBoundary", boundary)
    iam.PermissionsBoundary.of(stack).apply(policy)
