"""Draw docs/rooms.svg, the rooms of the code, from the code's own imports.

A box is a room with the first sentence of its `__init__.py`. The floors are those of the import contract
in pyproject.toml. An arrow is an import; one that follows from others is left out.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

from launcher.provisioning.picture import FONT, quoted
from launcher.session.show_cluster import render
from tools.generate.generated import ROOT

PICTURE = ROOT / "docs" / "rooms.svg"

LAUNCHER = "launcher"
PROVISIONING = {
    "stacks": "What is deployed together: each wires constructs to a cluster file.",
    "constructs": "The parts that the stacks are made of, one file each.",
    "slipway_cdk": "EFA's group, Lustre and the rule pack, installable for any CDK app.",
}
"""The packages of the CDK app, in words: constructs/ has no `__init__.py` that could hold them."""

CONTAINER = "slipway"
"""Shipped to the hosts of a job; imports nothing of ours, and nothing imports it."""

Arrows = frozenset[tuple[str, str]]


def generated() -> dict[Path, str]:
    """What the picture should be now."""
    return {PICTURE: render(graph_of(floors(), imports()))}


def floors() -> list[list[str]]:
    """The rooms of the launcher as dotted names, a list for each floor, the top one first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [
        contract["layers"]
        for contract in contracts
        if contract["type"] == "layers" and all(layer.startswith(LAUNCHER) for layer in contract["layers"])
    ]
    return [layer.split(" | ") for layer in layers]


def imports() -> Arrows:
    """Which room imports which, also inside of functions and for types alone."""
    rooms = [*(room for floor in floors() for room in floor), *PROVISIONING]
    found = set()
    for room in rooms:
        for file in _files(room):
            for module in _imported(file):
                target = next((each for each in rooms if f"{module}.".startswith(f"{each}.")), room)
                if target != room:
                    found.add((room, target))
    return frozenset(found)


def without_implied(arrows: Arrows) -> Arrows:
    """The arrows without those that a longer way says already."""

    def reaches(start: str, end: str, seen: frozenset[str]) -> bool:
        nexts = {target for source, target in arrows if source == start} - seen
        return end in nexts or any(reaches(each, end, seen | {each}) for each in nexts)

    return frozenset(
        (source, target)
        for source, target in arrows
        if not any(
            reaches(middle, target, frozenset({source, middle}))
            for start, middle in arrows
            if start == source and middle != target
        )
    )


def graph_of(storeys: Sequence[Sequence[str]], arrows: Arrows) -> str:
    """The graph in Graphviz' language: a rank for each floor, the CDK app and the container beside them."""
    lines = [*_HEAD]
    lines.append(f"  subgraph cluster_launcher {{ label=<<B>{LAUNCHER}/</B>> labelloc=t margin=10")
    for floor in storeys:
        lines.append(f"    {{ rank=same; {' '.join(f'{quoted(room)};' for room in floor)} }}")
    lines += [f"    {quoted(room)} [{_look(room, _purpose(room))}]" for floor in storeys for room in floor]
    lines.append("  }")
    lines += [
        f"  {quoted(upper[0])} -> {quoted(lower[0])} [style=invis weight=20]"
        for upper, lower in pairwise(storeys)
    ]
    lines.append("  subgraph cluster_cdk { label=<<B>the CDK app, app.py</B>> labelloc=t margin=10")
    lines += [f"    {quoted(room)} [{_look(room, words)}]" for room, words in PROVISIONING.items()]
    lines.append("  }")
    lines.append("  subgraph cluster_container { label=<<B>in the container</B>> labelloc=t margin=10")
    lines.append(f"    {quoted(CONTAINER)} [{_look(CONTAINER, _purpose(CONTAINER))}]")
    lines.append("  }")
    lines += [f"  {quoted(source)} -> {quoted(target)}" for source, target in sorted(without_implied(arrows))]
    return "\n".join([*lines, "}", ""])


def _files(room: str) -> list[Path]:
    place = _place(room)
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def _place(room: str) -> Path:
    """The folder of a room, or the file of one that is a module."""
    folder = ROOT.joinpath(*room.split("."))
    return folder if folder.is_dir() else folder.with_suffix(".py")


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from launcher import api` names the module only here.
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _purpose(room: str) -> str:
    """The first sentence of a room's docstring."""
    place = _place(room)
    file = place / "__init__.py" if place.is_dir() else place
    text = " ".join((ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split())
    return text.partition(". ")[0].rstrip(".").replace("`", "")


def _inner(room: str) -> list[str]:
    return sorted(file.parent.name for file in _place(room).glob("*/__init__.py"))


def _look(room: str, purpose: str) -> str:
    name = room.removeprefix(f"{LAUNCHER}.")
    title = f"{name}/" if _place(room).is_dir() else f"{name}.py"
    rows = [f"<B>{escape(title)}</B>", *(_row(line, _TEXT) for line in wrap(purpose.rstrip("."), _WIDTH))]
    inner = ", ".join(f"{name}/" for name in _inner(room))
    rows += [_row(line, _INNER) for line in wrap(inner, _WIDTH)]
    left = '<BR ALIGN="LEFT"/>'
    return f"label=<{left.join([*rows, ''])}>"


def _row(line: str, colour: str) -> str:
    return f'<FONT POINT-SIZE="11" COLOR="{colour}">{escape(line)}</FONT>'


_WIDTH = 36
_TEXT = "#374151"
_INNER = "#1d4ed8"
_LEGEND = "&#160;" * 8 + "blue: the rooms inside of a room; an arrow: imports"
_HEAD = (
    "digraph rooms {",
    "  compound=true rankdir=TB nodesep=0.45 ranksep=0.4 margin=0.1 bgcolor=white newrank=true",
    '  labeljust=l style="rounded,filled" color="#c8ccd2" fillcolor="#f6f7f9"',
    f'  label="{_LEGEND}" labelloc=b',
    f'  graph [fontname="{FONT}" fontsize=13]',
    # The margin leaves room for readers whose font is wider.
    f'  node [fontname="{FONT}" fontsize=12 shape=box style="rounded,filled" margin="0.36,0.06"]',
    '  node [color="#6b7280" fillcolor=white]',
    '  edge [color="#6b7280" arrowsize=0.7]',
)
