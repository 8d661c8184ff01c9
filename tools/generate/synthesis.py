"""The shipped clusters as templates, for what is generated from them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk

from launcher.cluster.files import load_cluster_file
from stacks.slipway_app import add_stacks
from tools.generate.generated import ROOT


@dataclass(frozen=True, slots=True)
class SynthesizedApp:
    """The templates by stack, in the order of deployment, and the class of each construct by its path."""

    templates: Mapping[str, Mapping[str, Any]]
    titles: Mapping[str, str]


def synthesize(cluster: str) -> SynthesizedApp:
    """The app of a cluster file."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    with tempfile.TemporaryDirectory(prefix="slipway-templates-") as folder:
        app = cdk.App(context={**context, "aws:cdk:enable-path-metadata": True}, outdir=folder)
        add_stacks(app, load_cluster_file(ROOT / "clusters" / f"{cluster}.yaml"))
        templates = {stack.stack_name: stack.template for stack in app.synth().stacks}
    titles = {
        child.node.path: type(child).__name__
        for stack in app.node.children
        if cdk.Stack.is_stack(stack)
        for child in stack.node.children
    }
    return SynthesizedApp(templates, titles)
