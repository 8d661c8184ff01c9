"""Each template of the dev cluster is what was last looked at and agreed to."""

from __future__ import annotations

import json
import re

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stacks.synthesis import PARTS, Synthesized


@pytest.mark.parametrize("part", PARTS)
def test_template_is_unchanged(dev: Synthesized, part: str, snapshot: SnapshotAssertion) -> None:
    without_hashes = re.sub(r"\b[0-9a-f]{64}\b", "ASSET-HASH", json.dumps(dev.template(part)))

    assert json.loads(without_hashes) == snapshot(extension_class=JSONSnapshotExtension)
