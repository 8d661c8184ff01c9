"""FSx for Lustre on Intelligent-Tiering: storage that grows by itself, paid for by what lies on it.

Source: FSx API reference, CreateFileSystemLustreConfiguration (ThroughputCapacity),
LustreReadCacheConfiguration and CreateFileSystemLustreMetadataConfiguration.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from launcher.cluster.section import Section, refuse
from launcher.facts.provenance import Provenance
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure

PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=365,
    source="FSx API reference, CreateFileSystemLustreConfiguration",
)

_STEP, _MOST = 4_000, 2_000_000
"""MB/s."""

_LEAST_CACHE, _MOST_CACHE = 32, 131_072
"""GiB of read cache for each 4000 MB/s."""

_METADATA_IOPS: Final = (6000, 12000)

FIGURES = tuple(
    Figure(str(number), "what a file system on Intelligent-Tiering can be", sources.FILE_SYSTEM_API)
    for number in (_STEP, _LEAST_CACHE, _MOST_CACHE, *_METADATA_IOPS)
)
"""The figures that texts name."""

POSSIBLE: Final = (
    "Intelligent-Tiering: PERSISTENT_2 without capacity and throughput per TiB; a multiple of "
    f"{_STEP} MB/s up to {_MOST}; read cache none, proportional, or {_LEAST_CACHE} to {_MOST_CACHE} GiB for "
    f"each {_STEP} MB/s; metadata of 6000 or 12000 IOPS; no associations"
)
"""What exists, as a line of text for a message."""


def tiered_throughput_problem(throughput_mbps: int) -> str | None:
    """What is wrong with the throughput (MB/s) of a file system on Intelligent-Tiering, or None."""
    if _STEP <= throughput_mbps <= _MOST and throughput_mbps % _STEP == 0:
        return None
    return (
        f"FSx has no Intelligent-Tiering of {throughput_mbps} MB/s; use a multiple of {_STEP} up to {_MOST}"
    )


def read_cache_problem(throughput_mbps: int, cache_gib: int) -> str | None:
    """What is wrong with a read cache of that size (GiB) for a throughput (MB/s), or None."""
    least, most = (each * throughput_mbps // _STEP for each in (_LEAST_CACHE, _MOST_CACHE))
    if least <= cache_gib <= most:
        return None
    return f"at {throughput_mbps} MB/s FSx has no read cache of {cache_gib} GiB; use {least} to {most}"


def tiered_metadata_problem(iops: int | None) -> str | None:
    """What is wrong with the metadata of a file system on Intelligent-Tiering, or None.

    `iops` is None where FSx is to choose, or where there is no configuration: it chooses on SSD only.
    """
    if iops in _METADATA_IOPS:
        return None
    given = "none" if iops is None else str(iops)
    return f"Intelligent-Tiering needs metadata of 6000 or 12000 IOPS, and {given} are given"


class ReadCache(Section):
    """SSDs in front of the storage, for what is read again: `none`, `proportional` or {gib: N}."""

    mode: Literal["none", "proportional", "sized"] = Field(
        default="sized", description="`proportional` lets FSx choose the size by the throughput."
    )
    gib: int | None = Field(
        default=None, validate_default=True, description="GiB: 32 to 131072 for each 4000 MB/s."
    )

    @field_validator("gib")
    @classmethod
    def _goes_with_the_mode(cls, gib: int | None, info: ValidationInfo) -> int | None:
        if "mode" in info.data and (gib is not None) != (info.data["mode"] == "sized"):
            refuse("only a cache of a given size has `gib`", remedy="Write none, proportional or {gib: N}.")
        return gib


class IntelligentTiering(Section):
    """Storage that grows and shrinks with what lies on it, instead of `capacity_gib`."""

    throughput_mbps: int = Field(description="MB/s of the file system: a multiple of 4000. Can only grow.")
    read_cache: ReadCache = Field(description="`none`, `proportional` (by the throughput) or {gib: N}.")

    @field_validator("throughput_mbps")
    @classmethod
    def _exists(cls, throughput_mbps: int) -> int:
        refuse(tiered_throughput_problem(throughput_mbps), remedy=POSSIBLE)
        return throughput_mbps

    @field_validator("read_cache", mode="before")
    @classmethod
    def _may_be_a_word(cls, read_cache: Any) -> Any:
        return {"mode": read_cache} if isinstance(read_cache, str) else read_cache

    @field_validator("read_cache")
    @classmethod
    def _fits(cls, read_cache: ReadCache, info: ValidationInfo) -> ReadCache:
        throughput = info.data.get("throughput_mbps")
        if throughput is not None and read_cache.gib is not None:
            refuse(read_cache_problem(throughput, read_cache.gib), remedy=POSSIBLE, below=("gib",))
        return read_cache
