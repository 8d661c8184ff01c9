"""Synthesize a cluster's stacks, checked by cdk-nag and by Slipway's own rules."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.files import ClusterFileError, cluster_file, load_cluster
from launcher.cluster.specification import ClusterSpec
from stacks.account.deployed import NotCompared, deployed_clusters, refused_changes
from stacks.account.training_plans import unfit_plans
from stacks.slipway_app import add_stacks
from stacks.validation import Purpose

CLUSTERS = Path(__file__).parent.parent / "clusters"

DEFAULT = "dev"
"""The cluster that is meant where none is chosen."""


def synthesize(run_for: Purpose) -> int:
    """Synthesize the cluster of the context `cluster` (default dev).

    2 where there is no such cluster; where the credentials are those of another account than the file's;
    where none was chosen and others than dev are deployed; and, before a deployment with credentials, where
    the file has a change that what is deployed does not take: one that replaces data, unless the context
    `replace_data` is true, or one that AWS refuses; and where a training plan does not fit its nodes.
    """
    app = cdk.App()
    chosen = app.node.try_get_context("cluster")
    try:
        spec = load_cluster(str(chosen or DEFAULT), CLUSTERS)
        # The CDK's command line sets it where it has found credentials.
        credentials_of = os.environ.get("CDK_DEFAULT_ACCOUNT")
        if credentials_of:
            _check_account(spec, credentials_of)
        if credentials_of and run_for is not Purpose.LOOKING:
            _check_choice(chosen, spec, credentials_of)
        spec = _with_file_system_in_full(spec)
        if credentials_of and run_for is Purpose.DEPLOYING:
            accepted = str(app.node.try_get_context("replace_data")).lower() == "true"
            _check_changes(spec, str(chosen or DEFAULT), credentials_of, replace_data=accepted)
            _check_training_plans(spec, str(chosen or DEFAULT), credentials_of)
    except ClusterFileError as error:
        print("\n".join(f"slipway: {problem}" for problem in error.problems), file=sys.stderr)
        return 2
    add_stacks(app, spec)
    hosts: Counter[str] = Counter()
    for planned in spec.hosts:
        hosts[planned.instance_type] += planned.count
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), SlipwayChecks(app, hosts=hosts))
    app.synth()
    return 0


def _check_account(spec: ClusterSpec, given: str) -> None:
    if spec.account and spec.account != given:
        raise ClusterFileError(
            f"cluster {spec.name} is for account {spec.account}, but these credentials are of account "
            f"{given}: it would be looked for, or deployed, where it does not belong.\n"
            f"  → Use credentials of {spec.account} (AWS_PROFILE, `aws sso login`), or correct `account` in "
            "the cluster file."
        )


def _check_choice(chosen: str | None, spec: ClusterSpec, account: str) -> None:
    """Refuse to take the default for chosen where other clusters stand."""
    if chosen is not None:
        return
    try:
        others = [name for name in deployed_clusters(spec.region, account) if name != spec.name]
    except NotCompared as error:
        print(f"slipway: {error}", file=sys.stderr)
        return
    if others:
        raise ClusterFileError(
            f"no cluster was chosen, so this would be {spec.name}; in {spec.region} stand {', '.join(others)}"
            f".\n  → Say which one: `-c cluster={others[0]}`, or `-c cluster={spec.name}`."
        )


def _check_changes(spec: ClusterSpec, chosen: str, account: str, *, replace_data: bool) -> None:
    try:
        problems = refused_changes(spec, cluster_file(chosen, CLUSTERS), account, replace_data=replace_data)
    except NotCompared as error:
        print(f"slipway: {error}", file=sys.stderr)
        return
    if problems:
        *others, last = problems
        raise ClusterFileError(
            *others,
            f"{last}\n  → Undo it in the cluster file; `launch cluster plan {chosen}` shows all that would "
            "be done. Where data may go, save them and repeat this with `-c replace_data=true`.",
        )


def _check_training_plans(spec: ClusterSpec, chosen: str, account: str) -> None:
    try:
        problems = unfit_plans(spec, cluster_file(chosen, CLUSTERS), account)
    except NotCompared as error:
        print(f"slipway: {error}", file=sys.stderr)
        return
    if problems:
        raise ClusterFileError(*problems)


def _with_file_system_in_full(spec: ClusterSpec) -> ClusterSpec:
    """The cluster with its existing file system looked up, with the credentials of the environment."""
    existing = spec.lustre.existing if spec.lustre else None
    if existing is None or not existing.to_be_looked_up:
        return spec
    # Only then: most clusters are synthesized without AWS, and boto3 takes a while to import.
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    from stacks.account.existing_file_system import not_looked_up, with_file_system_in_full

    settings = Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 2})
    try:
        fsx, ec2 = (boto3.client(name, region_name=spec.region, config=settings) for name in ("fsx", "ec2"))
    except BotoCoreError as error:
        raise not_looked_up(existing.id, error) from error
    return with_file_system_in_full(spec, fsx=fsx, ec2=ec2)
