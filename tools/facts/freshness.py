"""When a table must be looked at again: too old for its own shelf life, while a newer source is at hand."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from launcher.facts import Provenance


def installed_versions(provenance: Provenance) -> dict[str, str]:
    """The packages that a table was read in, in the versions that are installed here."""
    return dict(_installed(provenance))


def _installed(provenance: Provenance) -> Iterator[tuple[str, str]]:
    for name in provenance.packages:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def newer_sources(provenance: Provenance, installed: Mapping[str, str]) -> list[str]:
    """The packages that are installed newer than the table knows them, in words."""
    return [
        f"{name} {installed[name]} (the table was compared with {known})"
        for name, known in provenance.packages.items()
        if name in installed and Version(installed[name]) > Version(known)
    ]


def must_be_looked_at(
    provenance: Provenance, today: datetime.date, installed: Mapping[str, str]
) -> str | None:
    """Why a table cannot wait any longer, or None. Time alone is no reason: there must be something newer."""
    newer = newer_sources(provenance, installed)
    if not newer or not provenance.is_past_its_shelf_life(today):
        return None
    return (
        f"was looked at {provenance.age_days(today)} days ago and may be believed for "
        f"{provenance.shelf_life_days}; installed is {', '.join(newer)}"
    )
