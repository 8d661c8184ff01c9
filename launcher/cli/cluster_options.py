"""The arguments that the commands on clusters share."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from launcher.cluster.stack_names import CLUSTER_NAME
from launcher.failure_modes.model import Figure
from launcher.failure_modes.refusal import Refusal

FIGURES = (Figure("32", "characters of a cluster's name, a bound of our own", None),)

ClusterName = Annotated[str, Parameter(help="The cluster's name.")]


def region_of(name: str) -> str:
    """The region of the AWS configuration, else of the cluster's file, else of its manifest on this machine.

    Raises Refusal where none is known, or where the name is none.
    """
    from launcher.aws.session import session_region
    from launcher.cluster.cluster_files import region_in_file
    from launcher.cluster.manifest_store import cached_manifests

    if not re.fullmatch(CLUSTER_NAME, name):
        raise Refusal(
            f"{name} is not the name of a cluster: lower-case letters, digits and hyphens, at most 32.",
            "Give the name alone, such as p4d for the cluster of clusters/p4d.yaml.",
        )
    met = (each.region for each in cached_manifests() if each.name == name)
    known = session_region() or region_in_file(name) or next(met, None)
    if known is None:
        raise Refusal(f"no AWS region is known to look for the cluster {name} in.", "Set AWS_REGION.")
    return known
