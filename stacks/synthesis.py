"""Synthesize a cluster's stacks, checked by cdk-nag and by Slipway's own rules."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.cluster_files import cluster_file, load_cluster
from launcher.cluster.specification import ClusterFileError, ClusterSpec
from stacks.deployed import NotCompared, refused_changes
from stacks.slipway_app import add_stacks

CLUSTERS = Path(__file__).parent.parent / "clusters"


def synthesize(*, may_deploy: bool) -> int:
    """Synthesize the cluster of the context `cluster` (default dev).

    2 where there is no such cluster, or the credentials are those of another account than the file's; and,
    with `may_deploy` and credentials, where the file has a change that what is deployed does not take: one
    that replaces data, unless the context `replace_data` is true, or one that AWS refuses.
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
    try:
        spec = _with_file_system_in_full(spec)
    except ClusterFileError as error:
        print(f"slipway: {error}", file=sys.stderr)
        return 2
    if may_deploy and credentials_of:
        accepted = str(app.node.try_get_context("replace_data")).lower() == "true"
        try:
            problems = refused_changes(
                spec, cluster_file(str(chosen), CLUSTERS), credentials_of, replace_data=accepted
            )
        except NotCompared as error:
            print(f"slipway: {error}", file=sys.stderr)
        else:
            if problems:
                print(_refused(problems, str(chosen)), file=sys.stderr)
                return 2
    add_stacks(app, spec)
    hosts: Counter[str] = Counter()
    for planned in spec.hosts:
        hosts[planned.instance_type] += planned.count
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), SlipwayChecks(app, hosts=hosts))
    app.synth()
    return 0


def _refused(problems: list[str], chosen: str) -> str:
    lines = "\n".join(f"slipway: {each}" for each in problems)
    return (
        f"{lines}\n  → Undo it in the cluster file; `launch cluster plan {chosen}` shows all that would be "
        "done. Where data may go, save them and repeat this with `-c replace_data=true`."
    )


def _other_account(spec: ClusterSpec, wanted: str, given: str) -> str:
    return (
        f"slipway: cluster {spec.name} is for account {wanted}, but these credentials are of account "
        f"{given}: it would be looked for, or deployed, where it does not belong.\n"
        f"  → Use credentials of {wanted} (AWS_PROFILE, `aws sso login`), or correct `account` in the "
        "cluster file."
    )


def _with_file_system_in_full(spec: ClusterSpec) -> ClusterSpec:
    """The cluster with its existing file system looked up, with the credentials of the environment."""
    existing = spec.lustre.existing if spec.lustre else None
    if existing is None or not existing.to_be_looked_up:
        return spec
    # Only then: most clusters are synthesized without AWS, and boto3 takes a while to import.
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    from stacks.existing_file_system import not_looked_up, with_file_system_in_full

    settings = Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 2})
    try:
        fsx, ec2 = (boto3.client(name, region_name=spec.region, config=settings) for name in ("fsx", "ec2"))
    except BotoCoreError as error:
        raise not_looked_up(existing.id, error) from error
    return with_file_system_in_full(spec, fsx=fsx, ec2=ec2)
