"""How long `cdk synth` takes for the dev cluster against the app that `cdk init` makes.

Bound: as long. What takes the time is the CDK's own validation of templates in a WebAssembly engine (1.7 of
1.9 s of the empty app's process, 2.8 of 3.7 s of dev's, by CPU profiles of jsii's node). `app.py` leaves it
to deployments, CI and `make audit`, `cdk init` leaves it on: the peer is what its users have, unchanged.
Printed beside it: both with the validation on, and both without, where what remains of dev's lead over an
empty app is 358 calls into node instead of 9, cdk-nag and our own rules.

The ratio is that of medians in one run, so that a slow machine does not matter. All are whole processes
through the same command line with the same cdk.json. The empty app is that of `cdk init app --language
python`, an app with one stack, with the one resource without properties in it: a template without
resources is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tools import ROOT
from tools.benchmarks.measuring import Figure, medians, run_process

RUNS = 5
BOUND = 1.0

EMPTY_APP = """\
import aws_cdk as cdk

app = cdk.App()
cdk.CfnWaitConditionHandle(cdk.Stack(app, "Empty"), "Nothing")
app.synth()
"""
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "true",
}
"""That of the Makefile: node from the virtual environment, nothing sent anywhere."""


def figures(folder: Path) -> Iterator[Figure]:
    """The ratio as users run both, then with and without the validation."""
    (folder / "empty.py").write_text(EMPTY_APP, "utf-8")
    os.environ.pop("CDK_VALIDATION", None)

    def seconds(app: Path, environment: dict[str, str]) -> float:
        command = [
            *(ROOT / "node_modules" / ".bin" / "cdk", "synth", "--quiet", "--context", "cluster=dev"),
            *("--app", f"{sys.executable} {app}", "--output", folder / app.stem),
        ]
        return run_process(command, folder=ROOT, environment=environment).seconds

    for what, validation in (
        ("as users run them", ""),
        ("both validated", "true"),
        ("neither validated", "false"),
    ):
        environment = {**ENVIRONMENT, **({"CDK_VALIDATION": validation} if validation else {})}
        apps = {"dev": ROOT / "app.py", "empty app": folder / "empty.py"}
        actions = {name: partial(seconds, app, environment) for name, app in apps.items()}
        middle = medians(actions, RUNS, warm=not validation)
        beside = ", ".join(f"{name} {took:.2f} s" for name, took in middle.items())
        ratio = middle["dev"] / middle["empty app"]
        yield Figure(f"cdk synth, {what}", ratio, None if validation else BOUND, "", beside)
