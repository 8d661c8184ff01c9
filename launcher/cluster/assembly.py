"""The folder that `cdk synth` writes, a cloud assembly: the stacks of a cluster and their templates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_templates(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The stacks of a cloud assembly with their templates, in the order of deployment.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not JSON.
        KeyError: the manifest is not one of a cloud assembly.
    """
    artifacts = json.loads((folder / "manifest.json").read_text("utf-8"))["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    for name in _in_order(stacks):
        path = folder / stacks[name]["properties"]["templateFile"]
        yield name, json.loads(path.read_text("utf-8"))


def _in_order(stacks: dict[str, Any]) -> list[str]:
    placed: list[str] = []

    def place(name: str) -> None:
        for needed in stacks[name].get("dependencies", ()):
            if needed in stacks and needed not in placed:
                place(needed)
        if name not in placed:
            placed.append(name)

    for name in stacks:
        place(name)
    return placed
