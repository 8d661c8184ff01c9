"""Which FSx for Lustre file systems exist: deployment types with their sizes, throughputs and regions.

Sources: FSx API reference, CreateFileSystemLustreConfiguration (ThroughputCapacity),
LustreReadCacheConfiguration and CreateFileSystemLustreMetadataConfiguration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from launcher.documents import FilePart, refuse
from launcher.facts import Provenance
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure
from launcher.frozen import frozen

TIERING_PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=365,
    source="FSx API reference, CreateFileSystemLustreConfiguration",
)

_STEP, _MOST = 4_000, 2_000_000
"""MB/s."""

_LEAST_CACHE, _MOST_CACHE = 32, 131_072
"""GiB of read cache for each 4000 MB/s."""

_TIERING_METADATA_IOPS: Final = (6000, 12000)

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
    if iops in _TIERING_METADATA_IOPS:
        return None
    given = "none" if iops is None else str(iops)
    return f"Intelligent-Tiering needs metadata of 6000 or 12000 IOPS, and {given} are given"


class ReadCache(FilePart):
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


class IntelligentTiering(FilePart):
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


Deployment = Literal["SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
"""Scratch types keep no replica: a failed server loses its files. Persistent ones do."""

PROVENANCE: Final = Provenance(
    date(2026, 11, 21),
    shelf_life_days=365,
    source="FSx API reference, CreateFileSystem and CreateFileSystemLustreConfiguration",
)

MOST_ASSOCIATIONS: Final = 8
"""FSx API reference, CreateDataRepositoryAssociation."""

_EFA_STEPS: Final = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
"""GiB by throughput: the capacities of file systems with EFA are multiples of these (FSx for Lustre
guide, configuring EFA; aws-parallelcluster's validators)."""

_METADATA_IOPS: Final = (1500, 3000, 6000)
_METADATA_STEP, _MOST_METADATA_IOPS = 12_000, 192_000
_METADATA_CHOICES: Final = "1500, 3000, 6000 or a multiple of 12000 up to 192000"


@frozen
class _Sizes:
    """One row: the capacities, in GiB, that go with a deployment type and its throughputs."""

    deployment: Deployment
    storage: Literal["SSD", "HDD"]
    throughputs: tuple[int, ...]
    exact: tuple[int, ...]
    step: int

    def fits(self, capacity_gib: int) -> bool:
        return capacity_gib in self.exact or (capacity_gib > 0 and capacity_gib % self.step == 0)

    def __str__(self) -> str:
        return " or ".join([*map(str, self.exact), f"a multiple of {self.step}"])


_TABLE: Final = (
    _Sizes("SCRATCH_1", "SSD", (), (1200, 2400), 3600),
    _Sizes("SCRATCH_2", "SSD", (), (1200,), 2400),
    _Sizes("PERSISTENT_1", "SSD", (50, 100, 200), (1200,), 2400),
    _Sizes("PERSISTENT_1", "HDD", (12,), (), 6000),
    _Sizes("PERSISTENT_1", "HDD", (40,), (), 1800),
    _Sizes("PERSISTENT_2", "SSD", (125, 250, 500, 1000), (1200,), 2400),
)

FIGURES = (
    *tuple(
        Figure(str(number), "what a file system on Intelligent-Tiering can be", sources.FILE_SYSTEM_API)
        for number in (_STEP, _LEAST_CACHE, _MOST_CACHE, *_TIERING_METADATA_IOPS)
    ),
    *tuple(
        Figure(str(number), what, sources.FILE_SYSTEM_API)
        for what, numbers in {
            "IOPS of metadata servers": (*_METADATA_IOPS, _METADATA_STEP, _MOST_METADATA_IOPS),
            "GiB of a file system, or a step of them": (1200, 2400),
            "MB/s per TiB of PERSISTENT_2": _TABLE[-1].throughputs,
        }.items()
        for number in numbers
    ),
)
"""The figures of the table that texts name."""


def what_is_possible() -> str:
    """The table of file systems that exist, as lines of text for a message."""
    head = ("deployment", "storage", "throughput, MB/s per TiB", "capacity, GiB")
    rows = [
        (row.deployment, row.storage, ", ".join(map(str, row.throughputs)) or "none", str(row))
        for row in _TABLE
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
    steps = ", ".join(f"{step} at {throughput}" for throughput, step in _EFA_STEPS.items())
    return "\n    ".join(
        [
            "FSx for Lustre offers:",
            *lines,
            f"metadata: PERSISTENT_2 only; automatic, or {_METADATA_CHOICES} IOPS",
            f"EFA: PERSISTENT_2 with metadata only; capacities in steps of {steps} MB/s per TiB",
            "backups: persistent types only, without associations; keys: persistent types only",
            POSSIBLE,
            f"associations: all but SCRATCH_1; at most {MOST_ASSOCIATIONS}",
        ]
    )


def is_persistent(deployment: Deployment) -> bool:
    """Whether the type replicates its data, can be backed up and takes a key of one's own."""
    return deployment.startswith("PERSISTENT")


def throughput_problem(deployment: Deployment, throughput: int | None) -> str | None:
    """What is wrong with a throughput (MB/s per TiB) for this deployment type, or None."""
    known = sorted(value for row in _rows(deployment) for value in row.throughputs)
    if not known and throughput is not None:
        return f"{deployment} has a fixed throughput, so FSx refuses {throughput}; leave it out"
    if known and throughput is None:
        return f"{deployment} needs one, in MB/s per TiB; use {_either(known)}"
    if known and throughput not in known:
        return f"{throughput} MB/s per TiB does not exist for {deployment}; use {_either(known)}"
    return None


_MOST_GIB = 2**31 - 1
"""FSx API reference, CreateFileSystem (StorageCapacity)."""


def capacity_problem(deployment: Deployment, throughput: int | None, capacity_gib: int) -> str | None:
    """What is wrong with a capacity (GiB) for this deployment type and throughput, or None.

    A throughput that is itself wrong gives None: it is `throughput_problem`'s to report.
    """
    row = _row(deployment, throughput)
    if row is None:
        return None
    if capacity_gib > _MOST_GIB:
        return f"FSx has no file system of {capacity_gib} GiB; it counts to {_MOST_GIB}"
    if row.fits(capacity_gib):
        return None
    at = f" at {throughput} MB/s per TiB" if throughput is not None else ""
    return f"FSx has no {deployment} file system of {capacity_gib} GiB{at}; use {row}"


def metadata_problem(deployment: Deployment, iops: int | None) -> str | None:
    """What is wrong with a metadata configuration; `iops` is None where FSx chooses (AUTOMATIC).

    Source: FSx API reference, CreateFileSystemLustreMetadataConfiguration.
    """
    if deployment != "PERSISTENT_2":
        return f"{deployment} has no metadata configuration; only PERSISTENT_2 has"
    fits = iops is None or iops in _METADATA_IOPS
    if iops is not None and not fits:
        fits = 0 < iops <= _MOST_METADATA_IOPS and iops % _METADATA_STEP == 0
    if not fits:
        return f"FSx has no metadata servers of {iops} IOPS; use {_METADATA_CHOICES}"
    return None


def efa_problem(
    deployment: Deployment, throughput: int | None, capacity_gib: int, *, metadata: bool
) -> str | None:
    """What keeps a file system from being created with EFA, or None."""
    if deployment != "PERSISTENT_2":
        return f"{deployment} cannot have EFA; only PERSISTENT_2 can"
    if not metadata:
        return "a file system with EFA needs `metadata`; set `metadata: automatic`"
    step = _EFA_STEPS.get(throughput or 0)
    if step is not None and capacity_gib % step:
        return (
            f"FSx has no file system with EFA of {capacity_gib} GiB at {throughput} MB/s per TiB; use a "
            f"multiple of {step}"
        )
    return None


def overlapping_paths(paths: Sequence[str]) -> tuple[int, int] | None:
    """The positions of the first two paths of which one lies in the other, or None.

    Source: FSx API reference, CreateDataRepositoryAssociation (FileSystemPath). `/` holds every path,
    so it can only stand alone.
    """
    parts = [[part for part in path.split("/") if part] for path in paths]
    for second, there in enumerate(parts):
        for first, here in enumerate(parts[:second]):
            shorter = min(len(here), len(there))
            if here[:shorter] == there[:shorter]:
                return first, second
    return None


def storage_type(deployment: Deployment, throughput: int | None) -> Literal["SSD", "HDD"]:
    """The storage behind a deployment type: SSD but for the two slowest throughputs of PERSISTENT_1."""
    row = _row(deployment, throughput)
    return "SSD" if row is None else row.storage


def _row(deployment: Deployment, throughput: int | None) -> _Sizes | None:
    for row in _rows(deployment):
        if throughput in row.throughputs or (throughput is None and not row.throughputs):
            return row
    return None


def _rows(deployment: Deployment) -> list[_Sizes]:
    return [row for row in _TABLE if row.deployment == deployment]


def _either(values: Iterable[int]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}"
