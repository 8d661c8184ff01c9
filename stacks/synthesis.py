"""Synthesize a cluster's stacks, checked by cdk-nag and by Slipway's own rules."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.cluster_files import load_cluster
from launcher.cluster.specification import ClusterFileError
from stacks.slipway_app import add_stacks

CLUSTERS = Path(__file__).parent.parent / "clusters"


def synthesize() -> int:
    """Synthesize the cluster of the context `cluster` (default dev); 2 where there is no such cluster."""
    app = cdk.App()
    chosen = app.node.try_get_context("cluster") or "dev"
    try:
        spec = load_cluster(str(chosen), CLUSTERS)
    except ClusterFileError as error:
        print(f"slipway: {error}", file=sys.stderr)
        return 2
    add_stacks(app, spec)
    hosts: Counter[str] = Counter()
    for planned in spec.hosts:
        hosts[planned.instance_type] += planned.count
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), SlipwayChecks(app, hosts=hosts))
    app.synth()
    return 0
