"""The templates that a cluster file stands for now: what the CDK app of the working directory synthesizes."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.cluster.assembly import read_templates
from launcher.failure_modes.refusal import Refusal

LONGEST_SECONDS = 300
"""An app that takes longer hangs; a large cluster takes some seconds."""

_LINES = 40
"""Of what a failed app printed, from its end."""


def synthesize(chosen: str, folder: Path = Path()) -> dict[str, Mapping[str, Any]]:
    """The templates by the names of their stacks, in the order of deployment.

    Runs the app that the folder's cdk.json names, as the CDK command line does, with the context
    `cluster`. Raises Refusal where there is no such file or the app fails, with what it printed.
    """
    settings = _settings(folder)
    app = str(settings.get("app") or "")
    if not app:
        raise Refusal(f"{folder / 'cdk.json'} names no app.", 'Give it `"app": "python3 app.py"`.')
    with tempfile.TemporaryDirectory(prefix="slipway-plan-") as output:
        _run(app, folder, _environment(_context(settings, chosen, folder), output))
        try:
            return dict(read_templates(Path(output)))
        except (OSError, ValueError, KeyError) as error:
            raise Refusal(
                f"the CDK app {app!r} wrote no stacks: {error}.", "Try it with `npx cdk synth`."
            ) from error


def _settings(folder: Path) -> Mapping[str, Any]:
    file = folder / "cdk.json"
    try:
        settings = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise Refusal(
            f"there is no cdk.json in {folder.resolve()}, so it is not known what would be deployed.",
            "Call this where you call `cdk deploy`: in the checkout of Slipway.",
        ) from None
    except (OSError, ValueError) as error:
        raise Refusal(f"{file} cannot be read: {error}.", "Correct it.") from error
    if not isinstance(settings, dict):
        raise Refusal(f"{file} holds no mapping.", "Correct it.")
    return settings


def _context(settings: Mapping[str, Any], chosen: str, folder: Path) -> dict[str, Any]:
    """The context as the CDK command line puts it together, for a call with `-c cluster=`."""
    looked_up = folder / "cdk.context.json"
    kept = json.loads(looked_up.read_text("utf-8")) if looked_up.is_file() else {}
    # The command line asks for these paths; without them resources would have no readable names.
    return {"aws:cdk:enable-path-metadata": True, **kept, **settings.get("context", {}), "cluster": chosen}


def _environment(context: Mapping[str, Any], output: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "CDK_OUTDIR": output,
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_VALIDATION": "true",
    }
    # With an account the app would itself ask AWS what is deployed, and refuse instead of being compared.
    environment.pop("CDK_DEFAULT_ACCOUNT", None)
    if importlib.util.find_spec("aws_cdk") is not None:
        # The `python3` of cdk.json is this one, whether its environment was activated or not.
        here = str(Path(sys.executable).parent)
        environment["PATH"] = os.pathsep.join([here, environment.get("PATH", os.defpath)])
    return environment


def _run(app: str, folder: Path, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            shlex.split(app),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_SECONDS,
        )
    except (OSError, ValueError) as error:
        raise Refusal(f"the CDK app {app!r} cannot be started: {error}.", "Correct cdk.json.") from error
    except subprocess.TimeoutExpired:
        raise Refusal(
            f"the CDK app {app!r} did not end within {LONGEST_SECONDS} s.", "Try it with `npx cdk synth`."
        ) from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LINES:])
        raise Refusal(
            f"the CDK app {app!r} failed with exit code {done.returncode}:\n{said}",
            "Correct what it says; `npx cdk synth` would end in the same way.",
        )
