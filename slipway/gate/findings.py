"""What the gate finds on the hosts, and what it could not find out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ORDER = (
    "HW001", "HW002", "IMG002", "FSX005", "S3002", "S3001", "DISK001", "CKPT007", "DIST003", "NCCL008",
    "NCCL007", "EFA007", "EFA005", "DATA005", "DIST001", "MEM003", "",
)  # fmt: skip
"""The worst first: what is wrong on a host by itself is the cause of what is wrong between hosts."""


@dataclass(frozen=True)
class HostFinding:
    """Something wrong on `host`: the failure mode's code, or none, and a sentence with what was measured.

    `ends` is whether the job would fail or stand still; else it may go on, and is told.
    """

    code: str
    host: str
    text: str
    ends: bool = True

    @property
    def sentence(self) -> str:
        """The same on all hosts."""
        return f"{self.code} {self.host}: {self.text}".strip()


@dataclass(frozen=True)
class Report:
    """What one host found, and what it could not find out, each with the reason."""

    findings: tuple[HostFinding, ...] = ()
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(self.findings + other.findings, self.unknown + other.unknown)

    def as_json(self) -> dict[str, Any]:
        """What the other hosts are told."""
        return {
            "findings": [[one.code, one.host, one.text, one.ends] for one in self.findings],
            "unknown": list(self.unknown),
        }


def report_of(told: Mapping[str, Any]) -> Report:
    """A report as another host told it."""
    findings = tuple(
        HostFinding(str(code), str(host), str(text), bool(ends))
        for code, host, text, ends in told["findings"]
    )
    return Report(findings, tuple(map(str, told["unknown"])))


def worst_first(findings: Iterable[HostFinding], hosts: Sequence[str]) -> list[HostFinding]:
    """All findings in one order, whichever host asks: what ends the job first, then by ORDER and by host."""
    return sorted(
        findings,
        key=lambda one: (not one.ends, ORDER.index(one.code), hosts.index(one.host), one.text),
    )
