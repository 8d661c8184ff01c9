"""Synthesis in process, with the feature flags of cdk.json, as `cdk synth` has them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from launcher.cluster.files import load_cluster_file
from launcher.cluster.names import PARTS
from launcher.cluster.specification import ClusterSpec
from stacks.slipway_app import ClusterStacks, add_stacks

ROOT = Path(__file__).parents[2]
CLUSTERS = tuple(sorted(path.stem for path in (ROOT / "clusters").glob("*.yaml")))

OTHERS = {
    name: load_cluster_file(ROOT / "tests" / "stacks" / "clusters" / f"{name}.yaml")
    for name in ("everything", "guest", "added", "plain", "tiered", "hyperpod")
}

Resources = dict[str, dict[str, Any]]

_OUTPUT = tempfile.TemporaryDirectory(prefix="slipway-synthesis-")


@dataclass(frozen=True)
class Synthesized:
    """An app with its stacks, and the folder that it was synthesized into."""

    app: cdk.App
    stacks: ClusterStacks
    folder: Path

    @property
    def parts(self) -> list[str]:
        """The stacks with something in them."""
        nothing = "AWS::CloudFormation::WaitConditionHandle"
        templates = {part: self.template(part)["Resources"].values() for part in PARTS}
        return [part for part, made in templates.items() if {each["Type"] for each in made} != {nothing}]

    def template(self, part: str) -> dict[str, Any]:
        stack: cdk.Stack = getattr(self.stacks, part)
        template: dict[str, Any] = json.loads((self.folder / stack.template_file).read_text())
        return template

    def resources(self, part: str, type_: str) -> Resources:
        return resources_of(self.template(part), type_)


_synthesized: dict[str, Synthesized] = {}
"""By the cluster's specification in JSON."""


def synthesize(spec: ClusterSpec) -> Synthesized:
    """A cluster, synthesized once in a process. Whoever changes its app or its folder makes it anew."""
    key = spec.model_dump_json()
    if key not in _synthesized:
        _synthesized[key] = synthesize_anew(spec)
    return _synthesized[key]


def synthesize_anew(spec: ClusterSpec) -> Synthesized:
    app = new_app()
    stacks = add_stacks(app, spec)
    return Synthesized(app, stacks, Path(app.synth().directory))


@cache
def cluster(name: str) -> Synthesized:
    """One of the clusters that are shipped."""
    return synthesize(load_cluster_file(ROOT / "clusters" / f"{name}.yaml"))


def changed_spec(name: str, /, **changes: Any) -> ClusterSpec:
    """A cluster that is shipped, with changes."""
    spec = load_cluster_file(ROOT / "clusters" / f"{name}.yaml")
    return ClusterSpec.model_validate({**spec.model_dump(), **changes})


def dev_spec(**changes: Any) -> ClusterSpec:
    return changed_spec("dev", **changes)


def new_app() -> cdk.App:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    return cdk.App(context=context, outdir=tempfile.mkdtemp(dir=_OUTPUT.name))


def new_stack(name: str = "Stack") -> cdk.Stack:
    return cdk.Stack(new_app(), name, env=cdk.Environment(region="us-west-2"))


def template_of(stack: cdk.Stack) -> dict[str, Any]:
    app = stack.node.root
    assert isinstance(app, cdk.App)
    template: dict[str, Any] = app.synth().get_stack_by_name(stack.stack_name).template
    return template


def resources_of(template: dict[str, Any], type_: str) -> Resources:
    return {name: each for name, each in template["Resources"].items() if each["Type"] == type_}
