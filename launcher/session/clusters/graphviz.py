"""Graphviz, as pictures are drawn with it.

It runs as WebAssembly in node (npm package @hpcc-js/wasm-graphviz), which comes with the CDK's command
line: the same version, and so the same picture, on every machine, and no binary to install.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

from launcher.failure_modes.model import Figure, Source
from launcher.failure_modes.refusal import Refusal
from launcher.provisioning.picture import FONT

FIGURES = (
    Figure(
        "18",
        "the oldest Node.js of the CDK's command line",
        Source("aws-cdk 2.1148.1, package.json: engines", date(2026, 11, 22)),
    ),
)

PACKAGE = Path("node_modules") / "@hpcc-js" / "wasm-graphviz"
"""Where npm puts Graphviz, below the checkout that the clusters are deployed from."""

_CHECKOUT = Path(__file__).resolve().parents[3]

_FAMILIES = "Helvetica, Arial, 'Liberation Sans', Arimo, sans-serif"
"""Fonts of the widths that Graphviz reckons with, wherever one of them is there."""

_RENDER = """\
try {
  const { readFileSync } = await import("node:fs");
  const { Graphviz } = await import("@hpcc-js/wasm-graphviz");
  const [graphviz, graph] = [await Graphviz.load(), readFileSync(0, "utf8")];
  const drawn = ["svg", "json"].map((format) => graphviz.layout(graph, format, "dot"));
  process.stdout.write(JSON.stringify(drawn));
} catch (error) {
  // Left to itself, node prints the line that threw: all of Graphviz.
  process.stderr.write(error.message.trim());
  process.exitCode = 1;
}
"""

_TEXT = re.compile(r"<text (?P<look>[^<>]*)>(?P<text>[^<]*)</text>")

Style = tuple[bool, float, str]
"""Bold or not, the size in points, and the text: what decides how wide it is."""


def render(graph: str) -> str:
    """A graph in Graphviz' language, in the font `FONT`, as SVG.

    Every text is drawn as wide as Graphviz reckoned, so that none leaves its box where the reader's font is
    wider.

    Raises:
        Refusal: node or the npm package is missing, or the graph is not valid.
    """
    command = [_node(), "--input-type=module", "--eval", _RENDER]
    run = subprocess.run(command, input=graph, cwd=_folder(), capture_output=True, text=True)
    if run.returncode != 0:
        raise Refusal(
            f"the picture could not be drawn: node ended with {run.returncode}: {run.stderr.strip()}",
            "Run `npm ci` in the checkout of Slipway; node must be 18 or newer.",
        )
    svg, layout = json.loads(run.stdout)
    fixed = _with_widths(svg, _widths(json.loads(layout)))
    return fixed.replace(f'font-family="{FONT},sans-Serif"', f'font-family="{_FAMILIES}"')


def _node() -> str:
    beside = Path(sys.executable).parent
    found = shutil.which("node", path=os.pathsep.join([os.environ.get("PATH", os.defpath), str(beside)]))
    if found is None:
        raise Refusal(
            "there is no node on PATH; without it no picture can be drawn.",
            "Install Node.js 18 or newer (the CDK needs it too), or leave out --picture.",
        )
    return found


def _folder() -> Path:
    """The folder from which node finds Graphviz: the current one, else the checkout of this package."""
    for folder in (Path.cwd(), _CHECKOUT):
        if (folder / PACKAGE).is_dir():
            return folder
    raise Refusal(
        f"{PACKAGE} is not in {Path.cwd()}; without it no picture can be drawn.",
        "Run `npm ci` in the checkout of Slipway and call the command there, or leave out --picture.",
    )


def _widths(value: Any) -> dict[Style, float]:
    """The widths of all texts in Graphviz' drawing operations (graphviz.org, xdot), wherever they stand."""
    found: dict[Style, float] = {}
    if isinstance(value, list):
        size, bold = 0.0, False
        for each in value:
            match each:
                case {"op": "F", "size": points}:
                    size = float(points)
                case {"op": "t", "fontchar": flags}:
                    bold = bool(flags & 1)
                case {"op": "T", "width": width, "text": text}:
                    found[bold, size, text] = float(width)
                case _:
                    found |= _widths(each)
    elif isinstance(value, dict):
        for each in value.values():
            found |= _widths(each)
    return found


def _with_widths(svg: str, widths: Mapping[Style, float]) -> str:
    """The picture with its width at every text: readers with another font squeeze or stretch it."""

    def fixed(found: re.Match[str]) -> str:
        look, text = found["look"], found["text"]
        size = re.search(r'font-size="([\d.]+)"', look)
        if size is None or not text.strip():
            return found[0]
        width = widths['font-weight="bold"' in look, float(size[1]), unescape(text)]
        return f'<text textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs" {look}>{text}</text>'

    return _TEXT.sub(fixed, svg)
