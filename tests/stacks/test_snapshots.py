"""Each template of the shipped clusters is what was last looked at and agreed to."""

from __future__ import annotations

import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stacks.synthesis import CLUSTERS, cluster


@pytest.mark.parametrize("name", CLUSTERS)
def test_templates_are_unchanged(name: str, snapshot: SnapshotAssertion) -> None:
    synthesized = cluster(name)
    for part in synthesized.parts:
        text = re.sub(r"\b[0-9a-f]{64}\b", "ASSET-HASH", json.dumps(synthesized.template(part)))
        # The controller runs the Python that packages it, which is that of these tests.
        text = re.sub(r'"python3\.[0-9]+"', '"PYTHON"', text)

        assert json.loads(text) == snapshot(name=part, extension_class=JSONSnapshotExtension)
