"""Synthesize a cluster's stacks, checked by cdk-nag and by Slipway's own rules."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.specification import ClusterFileError, ClusterSpec
from stacks.slipway_app import add_stacks, load_cluster

CLUSTERS = Path(__file__).parent.parent / "clusters"


def synthesize() -> int:
    """Synthesize the cluster of the context `cluster` (default dev); 2 where there is no such cluster."""
    app = cdk.App()
    chosen = app.node.try_get_context("cluster") or "dev"
    try:
        spec = load_cluster(str(chosen), CLUSTERS)
        existing = spec.lustre.existing if spec.lustre else None
        if existing is not None and existing.to_be_looked_up:
            spec = _with_file_system_in_full(spec, existing.id)
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


def _with_file_system_in_full(spec: ClusterSpec, id_: str) -> ClusterSpec:
    """The cluster with its existing file system looked up, with the credentials of the environment."""
    # Only then: most clusters are synthesized without AWS, and boto3 takes a while to import.
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    from stacks.existing_file_system import not_looked_up, with_file_system_in_full

    settings = Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 2})
    try:
        fsx, ec2 = (boto3.client(name, region_name=spec.region, config=settings) for name in ("fsx", "ec2"))
    except BotoCoreError as error:
        raise not_looked_up(id_, error) from error
    return with_file_system_in_full(spec, fsx=fsx, ec2=ec2)
