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
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
BOUND = 1.0

EMPTY_APP = """\
import aws_cdk as cdk

app = cdk.App()
cdk.CfnWaitConditionHandle(cdk.Stack(app, "Empty"), "Nothing")
app.synth()
"""


def seconds(app: Path, output: Path, validation: str | None = None) -> float:
    """Wall time of one synthesis of an app; `validation` is the value of CDK_VALIDATION, if any.

    Raises:
        subprocess.CalledProcessError: the synthesis fails.
    """
    command = [
        *(ROOT / "node_modules" / ".bin" / "cdk", "synth", "--quiet"),
        *("--app", f"{sys.executable} {app}", "--output", output, "--context", "cluster=dev"),
    ]
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=_environment(validation), check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    """Measure in turn, print the ratio, exit with 1 where it is over the bound."""
    with tempfile.TemporaryDirectory(prefix="slipway-benchmark-") as name:
        folder = Path(name)
        empty = folder / "empty.py"
        empty.write_text(EMPTY_APP, encoding="utf-8")
        ours = ROOT / "app.py"
        seconds(ours, folder / "ours")  # not counted: Python compiles what has changed
        ratio = _compare("as users run them", ours, empty, folder, None)
        _compare("both validated", ours, empty, folder, "true")
        _compare("neither validated", ours, empty, folder, "false")
    return 0 if ratio <= BOUND else 1


def _compare(what: str, ours: Path, empty: Path, folder: Path, validation: str | None) -> float:
    pairs = [
        (seconds(ours, folder / "ours", validation), seconds(empty, folder / "peer", validation))
        for _ in range(RUNS)
    ]
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    bound = f" (bound {BOUND})" if validation is None else ""
    print(f"cdk synth, {what}: dev {mine:.2f} s, empty app {theirs:.2f} s: ratio {mine / theirs:.2f}{bound}")
    return mine / theirs


def _environment(validation: str | None) -> dict[str, str]:
    """That of the Makefile: node from the virtual environment, nothing sent anywhere.

    Compiled Python is kept, as where nothing is set; else what is no installed package is compiled anew
    in every run.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "CDK_VALIDATION")
    }
    return {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "true",
        **({"CDK_VALIDATION": validation} if validation else {}),
    }


if __name__ == "__main__":
    sys.exit(main())
