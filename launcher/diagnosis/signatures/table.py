"""All rows of every family: read from table.json, which `tools/generate/failure_modes.py` makes of the files
in `launcher/failure_modes/`.

Where several rows match the same line with the same weight, the first one counts: by the `precedence` of
their families, then as they stand in their file, but for those of CODE001, which come last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from launcher.diagnosis.signatures.signature import Context, Lack, LineRole, Signature
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Retry, Stage
from launcher.failure_modes.registry import register

_CONTENT: dict[str, Any] = json.loads(Path(__file__).with_name("table.json").read_text("utf-8"))

_MADE_OF: Mapping[str, Any] = {
    "mode": CATALOGUE.__getitem__,
    "of": lambda codes: tuple(CATALOGUE[code] for code in codes),
    "role": LineRole,
    "retry": Retry,
    "digits": lambda kinds: None if kinds is None else frozenset(kind.encode() for kind in kinds),
}


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    row["pattern"] = re.compile(row["pattern"], row.pop("flags", 0))
    return {key: _MADE_OF[key](value) if key in _MADE_OF else value for key, value in row.items()}


SIGNATURES: Final = tuple(Signature(**_fields(row)) for row in _CONTENT["log"])
CONTEXTS: Final = tuple(Context(**_fields(row)) for row in _CONTENT["context"])
LACKS: Final[Mapping[str, Lack]] = MappingProxyType(
    {row["lacks"]: Lack(**_fields(row)) for row in _CONTENT["here"]}
)
"""What a machine may lack, in the order in which it counts."""

FRAGMENTS: Final[Mapping[str, str]] = MappingProxyType(_CONTENT["fragments"])
"""Parts of patterns and remedies of which several rows are made, by their names in the families."""

_MODES = [*(row.mode for row in SIGNATURES), *(row.mode for row in CONTEXTS)]
register(Stage.LOG, dict.fromkeys(_MODES), __name__)
