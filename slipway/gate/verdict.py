"""One verdict for all hosts, from what all of them found, and what each says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GATE_MODES = ("off", "warn", "on")
"""Not at all; said, and the job goes on; a finding that would end the job ends it before the ranks start."""


@dataclass(frozen=True)
class GateVerdict:
    """All findings, the worst first, and what is not known; `refused` is whether the ranks may not start."""

    findings: tuple[HostFinding, ...]
    unknown: tuple[str, ...]
    refused: bool

    @property
    def worst(self) -> HostFinding | None:
        """What weighs most, the same on all hosts."""
        return self.findings[0] if self.findings else None


def verdict_of(reports: Mapping[str, Report], hosts: Sequence[str], mode: str) -> GateVerdict:
    """The verdict that every host comes to from the same reports."""
    together = Report()
    for host in hosts:
        together += reports.get(host, Report())
    silent = tuple(f"what {host} found (it did not tell in time)" for host in hosts if host not in reports)
    findings = tuple(worst_first(dict.fromkeys(together.findings), hosts))
    refused = mode == "on" and bool(findings) and findings[0].ends
    return GateVerdict(findings, tuple(dict.fromkeys((*together.unknown, *silent))), refused)


def failure_text(verdict: GateVerdict, host: str) -> str:
    """What the failure file of a host says of a verdict that refused the job."""
    worst = verdict.worst
    assert worst is not None
    if host == worst.host:
        return f"{worst.sentence}{_more(verdict)}"
    return f"{worst.code} refused because of {worst.host}: {worst.text}"


def verdict_lines(
    verdict: GateVerdict, host: str, hosts: Sequence[str], seconds: float, passed: str
) -> list[str]:
    """What a host prints: the first one all of it, the others what refused the job.

    `passed` says what was tried, for the line when all is well.
    """
    said = []
    if host == hosts[0]:
        for finding in verdict.findings[1 if verdict.refused else 0 :]:
            said.append(
                f"warning: gate: {finding.sentence}"
                if not verdict.refused
                else f"gate: also {finding.sentence}"
            )
        known = f"; not known: {'; '.join(verdict.unknown)}" if verdict.unknown else ""
        if not verdict.findings:
            said.append(f"gate: all well in {seconds:.1f} s ({passed}){known}")
        elif not verdict.refused:
            said.append(f"gate: {_count(verdict)} in {seconds:.1f} s ({passed}), the job goes on{known}")
        elif known:
            said.append(f"gate{known}")
    if verdict.refused:
        said.append(failure_text(verdict, host))
    return said


def _count(verdict: GateVerdict) -> str:
    number = len(verdict.findings)
    return "1 finding" if number == 1 else f"{number} findings"


def _more(verdict: GateVerdict) -> str:
    others = [finding for finding in verdict.findings[1:] if finding.ends]
    return f" (and {len(others)} more, in the log of the first host)" if others else ""


# What the gate finds on the hosts, and what it could not find out.


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


def report_from_json(told: Mapping[str, Any]) -> Report:
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
