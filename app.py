"""The CDK app: `cdk deploy --all -c cluster=NAME` provisions what `clusters/NAME.yaml` describes."""

from __future__ import annotations

import os
import shutil
import sys


def main() -> int:
    """Synthesize the stacks of the chosen cluster; 2 where there is no such cluster, or no node."""
    # The CDK starts node as soon as it is imported, and fails with a traceback where there is none.
    if shutil.which(os.environ.get("JSII_NODE") or "node") is None:
        print(
            "slipway: the CDK needs node, and there is none on PATH.\n"
            "  → node comes with the Python packages: run `make setup`, then `source .venv/bin/activate`.",
            file=sys.stderr,
        )
        return 2
    from stacks.synthesis import synthesize

    return synthesize()


if __name__ == "__main__":
    raise SystemExit(main())
