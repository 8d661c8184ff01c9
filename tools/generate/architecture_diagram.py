"""Draw docs/architecture.svg from the synthesized app, and docs/managed-runs.svg from its graph.

The first is the picture that `launch cluster show --picture` draws of what is deployed, with the constructs
called by their classes. The second shows who calls whom while a run is managed, which no template tells.
"""

from __future__ import annotations

from pathlib import Path

from launcher.provisioning import picture
from launcher.session.show_cluster import render
from tools.generate.generated import ROOT
from tools.generate.synthesis import synthesize

PICTURE = ROOT / "docs" / "architecture.svg"
CALLS = ROOT / "docs" / "managed-runs.svg"
_CALLS_GRAPH = ROOT / "tools" / "generate" / "pages" / "managed-runs.dot"
CLUSTER = "p5-large"
"""The cluster that is drawn: the one with every part."""


def generated() -> dict[Path, str]:
    """What the pictures should be now."""
    return {PICTURE: render(graph_of(CLUSTER)), CALLS: render(_CALLS_GRAPH.read_text("utf-8"))}


def graph_of(cluster: str) -> str:
    """The graph of a cluster file, in Graphviz' language."""
    app = synthesize(cluster)
    return picture.graph_of(app.templates, app.titles)
