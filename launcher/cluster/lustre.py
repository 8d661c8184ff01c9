"""Which FSx for Lustre file systems exist: deployment types, throughputs, sizes and what goes with them.

The table is that of the FSx API reference, CreateFileSystem (StorageCapacity) and
CreateFileSystemLustreConfiguration (PerUnitStorageThroughput). CloudFormation checks none of it
before it creates the file system, so a wrong size costs a failed deployment of some minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from launcher.cluster.intelligent_tiering import POSSIBLE
from launcher.facts.provenance import Provenance
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure

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


@dataclass(frozen=True, slots=True)
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

FIGURES = tuple(
    Figure(str(number), what, sources.FILE_SYSTEM_API)
    for what, numbers in {
        "IOPS of metadata servers": (*_METADATA_IOPS, _METADATA_STEP, _MOST_METADATA_IOPS),
        "GiB of a file system, or a step of them": (1200, 2400),
        "MB/s per TiB of PERSISTENT_2": _TABLE[-1].throughputs,
    }.items()
    for number in numbers
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
