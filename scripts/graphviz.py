"""Graphviz, as the pictures in docs/ are drawn with it.

It runs as WebAssembly in node (npm package @hpcc-js/wasm-graphviz), which comes with the CDK's command
line: the same version, and so the same picture, on every machine, and no binary to install.
"""

from __future__ import annotations

import json
import subprocess

from scripts.generated import ROOT

FONT = "Helvetica"
"""The one name of which Graphviz knows the widths; readers without it get Arial or the like."""

_RENDER = """\
import { Graphviz } from "@hpcc-js/wasm-graphviz";
import { readFileSync } from "node:fs";
process.stdout.write((await Graphviz.load()).layout(readFileSync(0, "utf8"), "svg", "dot"));
"""


def render(graph: str) -> str:
    """A graph in Graphviz' language as SVG.

    Raises:
        subprocess.CalledProcessError: node or the npm package is missing, or the graph is not valid.
    """
    command = ["node", "--input-type=module", "--eval", _RENDER]
    run = subprocess.run(command, input=graph, cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.replace(f'font-family="{FONT},sans-Serif"', f'font-family="{FONT}, Arial, sans-serif"')


def quoted(text: str) -> str:
    """A name as Graphviz reads it."""
    return json.dumps(text)
