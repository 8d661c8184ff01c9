"""The arguments that the commands on clusters share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from launcher.failure_modes.refusal import Refusal

ClusterName = Annotated[str, Parameter(help="The cluster's name.")]


def region_of(name: str) -> str:
    """The region of the AWS configuration, else that of the cluster's manifest on this machine.

    Raises Refusal where neither is known.
    """
    from launcher.aws.session import session_region
    from launcher.cluster.manifest_store import cached_manifests

    known = session_region() or next((each.region for each in cached_manifests() if each.name == name), None)
    if known is None:
        raise Refusal(f"no AWS region is known to look for the cluster {name} in.", "Set AWS_REGION.")
    return known
