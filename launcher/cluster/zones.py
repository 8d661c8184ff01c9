"""Availability zones: their names, and their ids, which mean the same zone in every account."""

from __future__ import annotations

import re
from collections.abc import Sequence

from launcher.cluster.section import refuse

_DIRECTIONS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c"}


def check_zones(zones: Sequence[str], region: str) -> None:
    """Refuse zones that are not all names, or all ids, of different zones of the region."""
    name = re.compile(rf"{re.escape(region)}[a-z]")
    # The ids of the sovereign cloud's zones are not published.
    prefix = zone_id_prefix(region) if not region.startswith("eusc-") else "[a-z0-9]+"
    identifier = re.compile(rf"{prefix}-az[0-9]+")
    ids = f", their ids {prefix}-az1" if prefix.isalnum() else ""
    remedy = f"Zones of {region} are called {region}a{ids}, and so on."
    for position, zone in enumerate(zones):
        if not (name.fullmatch(zone) or identifier.fullmatch(zone)):
            refuse(f"{zone!r} is not a zone of {region}", remedy=remedy)
        if zone in zones[:position]:
            refuse(f"{zone!r} is there twice", remedy="A zone has one subnet: name each once.")
    if len({bool(name.fullmatch(zone)) for zone in zones}) > 1:
        refuse(
            "names and ids are mixed, so two of them may be the same zone",
            remedy="Which name goes with which id differs by account: use one kind only.",
        )


def is_zone_id(zone: str) -> bool:
    """Whether a zone is given by its id, such as usw2-az1, and not by its name."""
    return "-az" in zone


def zone_id_prefix(region: str) -> str:
    """The first part of a region's zone ids: `usw2` of us-west-2, `apse1` of ap-southeast-1."""
    area, *words, number = region.split("-")
    for word, letter in _DIRECTIONS.items():
        words = [part.replace(word, letter) for part in words]
    return area + "".join("g" if part == "gov" else part for part in words) + number
