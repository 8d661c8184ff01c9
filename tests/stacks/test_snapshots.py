"""Each template of the shipped clusters is what was last looked at and agreed to."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stacks.synthesis import CLUSTERS, OTHERS, Synthesized, cluster, synthesize


@pytest.mark.parametrize("name", CLUSTERS)
def test_templates_are_unchanged(name: str, snapshot: SnapshotAssertion) -> None:
    synthesized = cluster(name)
    for part in synthesized.parts:
        assert _as_agreed_to(synthesized, part) == snapshot(name=part, extension_class=JSONSnapshotExtension)


def test_the_template_of_hyperpod_is_unchanged(snapshot: SnapshotAssertion) -> None:
    template = _as_agreed_to(synthesize(OTHERS["hyperpod"]), "hyperpod")

    assert template == snapshot(extension_class=JSONSnapshotExtension)


def _as_agreed_to(synthesized: Synthesized, part: str) -> Any:
    """A template without what changes with the content of assets."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "ASSET-HASH", json.dumps(synthesized.template(part)))
    text = re.sub(r"slipway/hyperpod/[0-9a-f]{32}", "slipway/hyperpod/DIGEST", text)
    # The controller runs the Python that packages it, which is that of these tests.
    return json.loads(re.sub(r'"python3\.[0-9]+"', '"PYTHON"', text))
