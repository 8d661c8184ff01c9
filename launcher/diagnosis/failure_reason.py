"""The failure reason of a job whose container already wrote its diagnosis.

The boot writes `/opt/ml/output/failure` with the failure mode's code first, and the service hands it
on as `AlgorithmError: CODE001 rank 3 on algo-2: ..., exit code: 1`.
"""

from __future__ import annotations

import re

from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Finding, Stage

_WRITTEN_BY_BOOT = re.compile(
    r"(?:\w+Error: )?(?P<code>[A-Z][A-Z0-9]*\d{3}) (?P<message>.*?)(?:, exit code: -?\d+)?\Z",
    re.DOTALL,
)
_RANK = re.compile(r"\brank \d+\b")


def finding_of(failure_reason: str | None) -> Finding | None:
    """The finding in a failure reason, or None where the container did not write one."""
    match = _WRITTEN_BY_BOOT.match((failure_reason or "").rstrip())
    mode = CATALOGUE.get(match["code"]) if match else None
    if match is None or mode is None:
        return None
    rank = _RANK.search(match["message"])
    return mode.finding(Stage.RUNTIME, match["message"], subject=rank[0] if rank else None)
