"""The CDK app: `cdk deploy --all -c cluster=NAME` provisions what `clusters/NAME.yaml` describes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator

import psutil

from stacks.validation import SWITCH, Purpose, purpose


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
    run_for = purpose(_command_lines_above())
    if run_for is Purpose.LOOKING:
        os.environ.setdefault(SWITCH, "false")  # before node starts, which reads it
    from stacks.synthesis import synthesize

    return synthesize(run_for)


def _command_lines_above() -> Iterator[list[str]]:
    """The words of the command lines that this process was started from, as far as they may be seen."""
    for parent in psutil.Process().parents():
        with contextlib.suppress(psutil.Error):
            yield parent.cmdline()


if __name__ == "__main__":
    raise SystemExit(main())
