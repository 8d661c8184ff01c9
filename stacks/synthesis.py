"""Synthesize a cluster's stacks, checked by cdk-nag and by Slipway's own rules."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.cluster_files import load_cluster
from launcher.cluster.specification import ClusterFileError, ClusterSpec
from stacks.slipway_app import add_stacks

CLUSTERS = Path(__file__).parent.parent / "clusters"


def synthesize() -> int:
    """Synthesize the cluster of the context `cluster` (default dev).

    2 where there is no such cluster, or the credentials are those of another account than the file's.
    """
    app = cdk.App()
    chosen = app.node.try_get_context("cluster") or "dev"
    try:
        spec = load_cluster(str(chosen), CLUSTERS)
    except ClusterFileError as error:
        print(f"slipway: {error}", file=sys.stderr)
        return 2
    # The CDK's command line sets it where it has found credentials.
    credentials_of = os.environ.get("CDK_DEFAULT_ACCOUNT")
    if spec.account and credentials_of and spec.account != credentials_of:
        print(_other_account(spec, spec.account, credentials_of), file=sys.stderr)
        return 2
    add_stacks(app, spec)
    hosts: Counter[str] = Counter()
    for planned in spec.hosts:
        hosts[planned.instance_type] += planned.count
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), SlipwayChecks(app, hosts=hosts))
    app.synth()
    return 0


def _other_account(spec: ClusterSpec, wanted: str, given: str) -> str:
    return (
        f"slipway: cluster {spec.name} is for account {wanted}, but these credentials are of account "
        f"{given}: it would be looked for, or deployed, where it does not belong.\n"
        f"  → Use credentials of {wanted} (AWS_PROFILE, `aws sso login`), or correct `account` in the "
        "cluster file."
    )
