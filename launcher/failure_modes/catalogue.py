"""The whole catalogue: every failure mode by its code, in the order in which they are documented.

What people write stands in the TOML files beside this module; `tools/generate/failure_modes.py` makes one
file of them, which is read faster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

from launcher.failure_modes.model import FailureMode, Figure, Notice, Retry, Severity, Source, Stage, Symptom

_CONTENT: dict[str, Any] = json.loads(Path(__file__).with_name("catalogue.json").read_text("utf-8"))


def _mode(content: dict[str, Any]) -> FailureMode:
    return FailureMode(
        code=content["code"],
        title=content["title"],
        cause=content["cause"],
        remedy=content["remedy"],
        sources=tuple(_SOURCES[key] for key in content["sources"]),
        severity=Severity(content["severity"]),
        retry=Retry(content.get("retry", Retry.NEVER)),
        symptom=Symptom(content["symptom"]) if "symptom" in content else None,
        notices=tuple(_NOTICES[key] for key in content.get("notices", ())),
        figures=tuple(
            Figure(each["number"], each["what"], _SOURCES[each["source"]] if "source" in each else None)
            for each in content.get("figures", ())
        ),
        stages=tuple(map(Stage, content["stages"])),
    )


_SOURCES = {
    key: Source(each["title"], date.fromisoformat(each["as_of"]), each.get("commit"))
    for key, each in _CONTENT["sources"].items()
}
_NOTICES = {
    key: Notice(
        each["text"], date.fromisoformat(each["since"]) if "since" in each else None, _SOURCES[each["source"]]
    )
    for key, each in _CONTENT["notices"].items()
}
_MODES = {(each["family"], each["name"]): _mode(each) for each in _CONTENT["modes"]}

CATALOGUE: Final[Mapping[str, FailureMode]] = MappingProxyType({mode.code: mode for mode in _MODES.values()})
"""Every failure mode, keyed by its code."""

ATTRIBUTES: Final[Mapping[str, SimpleNamespace]] = MappingProxyType(
    {
        "sources": SimpleNamespace(**_SOURCES),
        "notices": SimpleNamespace(**_NOTICES),
        **{
            family: SimpleNamespace(**{name: mode for (of, name), mode in _MODES.items() if of == family})
            for family in _CONTENT["headings"]
        },
    }
)
"""What `launcher.failure_modes` has by name: sources, notices, and the families with their modes by name."""

FAMILIES: Final[Mapping[str, tuple[FailureMode, ...]]] = MappingProxyType(
    {
        heading: tuple(mode for (of, _), mode in _MODES.items() if _CONTENT["headings"][of] == heading)
        for heading in dict.fromkeys(_CONTENT["headings"].values())
    }
)
"""The modes under the headings of the documentation, each in the order of its codes."""
