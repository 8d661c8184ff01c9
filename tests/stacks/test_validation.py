"""The CDK's own validation, which takes most of a synthesis, runs except where somebody only looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stacks.validation import Purpose, purpose
from tests.stacks.synthesis import ROOT

SHELL = ["/bin/sh", "-c", "python3 app.py"]
NODE = ".venv/bin/node"
ITS_OWN = "CloudFormation Validate"


@pytest.mark.parametrize("command", ["synth", "synthesize", "diff", "ls", "list"])
def test_a_command_that_changes_nothing_only_looks(command: str) -> None:
    above = [SHELL, [NODE, "/home/me/node_modules/.bin/cdk", command, "--quiet"]]

    assert purpose(above) is Purpose.LOOKING


def test_only_destroy_destroys() -> None:
    cdk = [NODE, "node_modules/.bin/cdk"]

    assert purpose([SHELL, [*cdk, "destroy", "--all"]]) is Purpose.DESTROYING
    assert purpose([SHELL, [*cdk, "deploy", "destroy"]]) is Purpose.DEPLOYING
    assert purpose([["bash", "destroy"]]) is Purpose.DEPLOYING


@pytest.mark.parametrize(
    "command_line",
    [
        [NODE, "node_modules/.bin/cdk", "deploy", "--all"],
        [NODE, "node_modules/.bin/cdk", "deploy", "synth"],
        [NODE, "node_modules/.bin/cdk", "watch"],
        [NODE, "node_modules/.bin/cdk", "--app", "synth", "deploy"],
        [NODE, "node_modules/.bin/cdk"],
        ["synth"],
        ["bash", "synth", "cdk"],
        [],
    ],
)
def test_what_is_not_known_to_look_may_deploy(command_line: list[str]) -> None:
    assert purpose([SHELL, command_line, ["bash"]]) is Purpose.DEPLOYING


def test_the_nearest_command_line_of_the_cdk_decides() -> None:
    assert purpose([[NODE, "cdk", "deploy"], [NODE, "cdk", "synth"]]) is Purpose.DEPLOYING


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "switch", "validated"),
    [("synth", None, False), ("synth", "true", True), ("deploy", None, True)],
)
def test_the_app_is_validated_before_it_is_deployed(
    command: str, switch: str | None, validated: bool, tmp_path: Path
) -> None:
    # Stands for the CDK's command line: a program of its name and its words that starts the app.
    program = tmp_path / "cdk"
    program.write_text("import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'app.py']))\n")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "CDK_CONTEXT_JSON": json.dumps({"cluster": "dev"}),
        "CDK_OUTDIR": str(tmp_path / "out"),
        **({"CDK_VALIDATION": switch} if switch else {}),
    }

    subprocess.run([sys.executable, program, command], cwd=ROOT, env=environment, check=True, timeout=120)

    report = json.loads((tmp_path / "out" / "validation-report.json").read_text())
    assert (ITS_OWN in {each["pluginName"] for each in report["pluginReports"]}) is validated
