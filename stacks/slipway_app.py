"""From a cluster file to the stacks of a cluster: what `app.py` and the tests have in common.

References between the stacks are exports and imports (`defaultCrossStackReferences: strong` in
cdk.json), not the weak ones that `cdk init` proposes: with weak ones every change set plans to replace
what they feed, such as a file system whose subnet is another stack's (aws-cdk issue 38829), and
nothing keeps a stack from being deleted under the feet of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from launcher.cluster.manifest import CLUSTER_TAG
from launcher.cluster.specification import ClusterFileError, ClusterSpec, load_cluster_file
from stacks.access import AccessStack
from stacks.manifest import ManifestStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.queue import QueueStack
from stacks.storage import StorageStack


@dataclass(frozen=True, slots=True)
class ClusterStacks:
    """The stacks of one cluster, in the order in which they are deployed."""

    network: NetworkStack
    storage: StorageStack
    queue: QueueStack | None
    access: AccessStack
    observability: ObservabilityStack | None
    manifest: ManifestStack


def add_stacks(app: cdk.App, spec: ClusterSpec) -> ClusterStacks:
    """Add the stacks of a cluster to the app, all in the region of the cluster file.

    The account is left open: the one whose credentials `cdk deploy` runs with.
    """
    env = cdk.Environment(region=spec.region)

    def stack_name(part: str) -> str:
        return f"slipway-{spec.name}-{part}"

    network = NetworkStack(app, stack_name("network"), spec=spec, env=env)
    storage = StorageStack(app, stack_name("storage"), spec=spec, network=network, env=env)
    queue = QueueStack(app, stack_name("queue"), spec=spec, queue=spec.queue, env=env) if spec.queue else None
    access = AccessStack(
        app, stack_name("access"), spec=spec, network=network, storage=storage, queue=queue, env=env
    )
    observability = (
        ObservabilityStack(
            app,
            stack_name("observability"),
            spec=spec,
            wanted=spec.observability,
            storage=storage,
            access=access,
            env=env,
        )
        if spec.observability
        else None
    )
    manifest = ManifestStack(
        app,
        stack_name("manifest"),
        spec=spec,
        network=network,
        storage=storage,
        access=access,
        queue=queue,
        observability=observability,
        env=env,
    )
    if spec.role is not None and spec.role.permissions_boundary is not None:
        for stack in (network, storage, queue, access, observability, manifest):
            if stack is not None:
                _bound_roles(stack, spec.role.permissions_boundary)
    for key, value in {CLUSTER_TAG: spec.name, **spec.tags}.items():
        cdk.Tags.of(app).add(key, value)
    return ClusterStacks(network, storage, queue, access, observability, manifest)


def _bound_roles(stack: cdk.Stack, boundary: str) -> None:
    """Put a permissions boundary on every role of the stack, those of the CDK's own functions too."""
    policy = iam.ManagedPolicy.from_managed_policy_arn(stack, "PermissionsBoundary", boundary)
    iam.PermissionsBoundary.of(stack).apply(policy)


def load_cluster(chosen: str, folder: Path) -> ClusterSpec:
    """The cluster that `-c cluster=` chose: a name in the folder, or a path with a slash or `.yaml`.

    Raises:
        ClusterFileError: there is no such cluster, or its file is not valid; the message lists the
            clusters that there are.
    """
    try:
        if "/" in chosen or chosen.endswith((".yaml", ".yml")):
            return load_cluster_file(Path(chosen))
        path = folder / f"{chosen}.yaml"
        if not path.is_file():
            raise ClusterFileError(f"there is no cluster {chosen!r}: {path} does not exist")
        spec = load_cluster_file(path)
        if spec.name != chosen:
            # Else two files could deploy over each other's stacks.
            raise ClusterFileError(f"{path}: name: {spec.name!r} must be {chosen!r}, as the file is called")
        return spec
    except ClusterFileError as error:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        raise ClusterFileError(*error.problems, f"known clusters: {known} (in {folder})") from error
