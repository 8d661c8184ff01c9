"""The templates that the real CDK app makes of a cluster file."""

from __future__ import annotations

import json

from launcher.cluster.stack_names import PARTS
from launcher.session.clusters.synthesis import synthesize
from tests.stacks.synthesis import ROOT, cluster


def test_the_app_of_this_checkout_is_run_as_the_command_line_runs_it() -> None:
    found = synthesize("dev", ROOT)
    expected = cluster("dev")

    with_something = [name.rpartition("-")[2] for name, each in found.items() if each.get("Resources")]
    assert with_something == [part for part in PARTS if part in expected.parts]
    resources = found["slipway-dev-storage"]["Resources"]
    assert resources.keys() == expected.template("storage")["Resources"].keys()
    assert "slipway-dev-storage/FileSystem/Resource" in json.dumps(resources)
