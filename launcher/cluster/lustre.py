"""Which FSx for Lustre file systems exist: deployment types, throughputs and sizes.

The table is that of the FSx API reference, CreateFileSystem (StorageCapacity) and
CreateFileSystemLustreConfiguration (PerUnitStorageThroughput). CloudFormation checks none of it
before it creates the file system, so a wrong size costs a failed deployment of some minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Deployment = Literal["SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
"""Scratch types keep no replica: a failed server loses its files. Persistent ones do."""

LUSTRE_TCP_PORTS: Final = ((988, 988), (1018, 1023))
"""The port ranges between clients and file system, both ways (FSx for Lustre guide,
limit-access-security-groups)."""


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


def capacity_problem(deployment: Deployment, throughput: int | None, capacity_gib: int) -> str | None:
    """What is wrong with a capacity (GiB) for this deployment type and throughput, or None.

    A throughput that is itself wrong gives None: it is `throughput_problem`'s to report.
    """
    row = _row(deployment, throughput)
    if row is None or row.fits(capacity_gib):
        return None
    at = f" at {throughput} MB/s per TiB" if throughput is not None else ""
    return f"FSx has no {deployment} file system of {capacity_gib} GiB{at}; use {row}"


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
