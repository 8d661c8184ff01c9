"""What NCCL's lines say of EFA, held against what the hosts have.

Such lines stand in healthy logs, too. Whether one means something depends on the type of the hosts: as the
job was asked to be, else as the log names a single one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.diagnosis.model import Confidence, RootCause
from launcher.diagnosis.remedies import AskedJob
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.readings import Reading
from launcher.diagnosis.signs.sightings import Sighting
from launcher.diagnosis.verdict.findings import group_findings
from launcher.failure_modes import nccl, network
from launcher.failure_modes.model import Finding

_COUNT = "nics"
"""What the row of the plugin's count captures: how many interfaces it found."""

_FEWER = (
    "See on that host that all EFA interfaces are there and given to the job: `fi_info -p efa`, "
    "/dev/infiniband in the container, the launch template's or node group's network interfaces; and that "
    "FI_EFA_IFACE does not choose some. A host that has lost one wants to be replaced."
)


def judge_efa_notes(notes: Iterable[Sighting], reading: Reading, job: AskedJob) -> Iterator[Sighting]:
    """The notes, those on EFA with what the hosts have, and without those that mean nothing on their type:
    a full count of interfaces, and TCP where there is no EFA."""
    facts = _facts_of_hosts(reading, job)
    for sign in notes:
        if sign.mode is not network.EFA_NOT_USED:
            yield sign
        elif _COUNT in sign.captured:
            if facts is not None and int(sign.captured[_COUNT]) < facts.efa_interfaces:
                yield _fewer(sign, facts)
        elif facts is None:
            yield sign
        elif facts.has_efa:
            yield replace(sign, what=f"{sign.what}; {facts.instance_type} has EFA ({facts.efa_gbps} Gbit/s)")


def blame_sockets(root: Sighting, signs: Sequence[Sighting], reading: Reading, job: AskedJob) -> Sighting:
    """The root cause where a collective took too long, and NCCL had lost EFA before: the plugin had failed,
    or sockets were chosen on a type that has EFA."""
    if root.mode is not nccl.COLLECTIVE_TIMED_OUT or root.role is not LineRole.SYMPTOM:
        return root
    has_efa = _names_efa(reading) or (job.facts is not None and job.facts.has_efa)
    lost = [
        sign
        for sign in signs
        if sign.mode is network.EFA_NOT_USED
        and (has_efa or sign.role is LineRole.SYMPTOM)
        and _COUNT not in sign.captured
        and sign is not root
    ]
    if not lost or reading.uneven is not None:
        return root
    first = min(lost, key=lambda sign: (not sign.role.may_be_root, sign.index))
    what = f"{first.what}; {root.what}"
    return replace(first, role=LineRole.SYMPTOM, what=what, rank=None, host=None, about="")


def suspect_missing_interfaces(cause: RootCause, notes: Iterable[Sighting]) -> Finding | None:
    """That a host has fewer interfaces than its type, where ranks waited in vain and nothing tells why."""
    if cause.finding.code not in _WAITED or cause.sureness.confidence is Confidence.SURE:
        return None
    fewer = [sign for sign in notes if sign.mode is network.EFA_NOT_USED and _COUNT in sign.captured]
    return next(iter(group_findings(fewer, warn=True)), None)


_WAITED = frozenset({nccl.COLLECTIVE_TIMED_OUT.code, nccl.INITIALISATION_STALLED.code})


def _fewer(sign: Sighting, facts: InstanceFacts) -> Sighting:
    found = int(sign.captured[_COUNT])
    what = (
        f"the NCCL plugin found {found} of the {facts.efa_interfaces} EFA interfaces that "
        f"{facts.instance_type} has"
    )
    # All processes of a host find the same.
    return replace(sign, what=what, remedy=_FEWER, rank=None, local_rank=None, about=sign.host)


def _facts_of_hosts(reading: Reading, job: AskedJob) -> InstanceFacts | None:
    """What the hosts have; None where their type is not known."""
    if job.instance_type is not None:
        return job.facts
    named = {f"ml.{name.removeprefix('ml.')}" for name in _types_named(reading)}
    return instance_facts(named.pop()) if len(named) == 1 else None


def _names_efa(reading: Reading) -> bool:
    return next(_types_named(reading), None) is not None


def _types_named(reading: Reading) -> Iterator[str]:
    """The types with EFA that the log names."""
    for context, _, _, text in reading.contexts:
        if context.mode is network.EFA_NOT_USED:
            yield from (match[0] for match in context.pattern.finditer(text))
