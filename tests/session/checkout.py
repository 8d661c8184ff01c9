"""A checkout with a cluster file and a CDK app, and an emulated account to deploy it into."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launcher.cluster.names import PARTS
from launcher.cluster.specification import ClusterSpec
from tests.emulator import cloudformation
from tests.emulator.cloudformation.stacks import Stacks
from tests.stacks.synthesis import Synthesized, synthesize

ACCOUNT, REGION = "123456789012", "us-west-2"
TEAM: dict[str, Any] = {
    "name": "team",
    "region": REGION,
    "availability_zones": ["us-west-2a"],
    "vpc": {"cidr": "10.64.0.0/18"},
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 2}],
    "lustre": {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 2400},
}

_APP = """\
import os, shutil
shutil.copytree({folder!r}, os.environ["CDK_OUTDIR"], dirs_exist_ok=True)
"""


@dataclass(frozen=True)
class Checkout:
    """A folder with cdk.json and clusters/team.yaml; its app copies what was synthesized before."""

    folder: Path

    def wants(self, **changed: Any) -> Synthesized:
        """Write the cluster file, with top-level fields changed, and what the app makes of it."""
        data = {key: value for key, value in {**TEAM, **changed}.items() if value is not None}
        (self.folder / "clusters").mkdir(exist_ok=True)
        (self.folder / "clusters" / "team.yaml").write_text(yaml.safe_dump(data))
        synthesized = synthesize(ClusterSpec.model_validate(data))
        (self.folder / "app.py").write_text(_APP.format(folder=str(synthesized.folder)))
        settings = {"app": f"{sys.executable} app.py"}
        (self.folder / "cdk.json").write_text(json.dumps(settings))
        return synthesized


def deploy(synthesized: Synthesized, *, without_file: bool = False) -> None:
    """Let CloudFormation hold the stacks with their templates; of the resources nothing is made."""
    for part in PARTS:
        template = synthesized.template(part)
        if without_file:
            for resource in template["Resources"].values():
                resource.pop("Metadata", None)
        hold_stack(getattr(synthesized.stacks, part).stack_name, template)


def hold_stack(name: str, template: Mapping[str, Any], status: str = "CREATE_COMPLETE") -> None:
    """A stack with this template and state; of its resources nothing is made."""
    cloudformation.install()
    stack = Stacks.of(ACCOUNT, REGION).add(name, json.dumps(template), dict(template))
    stack.status = status
