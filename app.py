"""The CDK app: `cdk deploy --all -c cluster=NAME` provisions what `clusters/NAME.yaml` describes."""

from __future__ import annotations

import sys
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from launcher.cluster.specification import ClusterFileError
from stacks.slipway_app import add_stacks, load_cluster

CLUSTERS = Path(__file__).parent / "clusters"


def main() -> int:
    """Synthesize the stacks of the chosen cluster; 2 where there is no such cluster."""
    app = cdk.App()
    chosen = app.node.try_get_context("cluster") or "dev"
    try:
        spec = load_cluster(str(chosen), CLUSTERS)
    except ClusterFileError as error:
        print(f"slipway: {error}", file=sys.stderr)
        return 2
    add_stacks(app, spec)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
