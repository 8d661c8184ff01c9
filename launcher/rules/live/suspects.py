"""After a failure: which findings of the live stage may be its cause, and what the account says of each.

Pure: the facts go in, and what they show of each suspect comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from launcher.diagnosis.model import AccountCheck, CheckOutcome, Diagnosis
from launcher.failure_modes import capacity, checkpoints, nccl, network, storage
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Finding, Severity
from launcher.rules.live.check import check_account
from launcher.rules.live.subject import LiveSubject

_BETWEEN_HOSTS = (
    network.NO_INGRESS_FROM_ITSELF.code,
    network.NO_EGRESS_TO_ITSELF.code,
    nccl.INITIALISATION_STALLED.code,
)
_LUSTRE = (
    storage.LUSTRE_NOT_AVAILABLE.code,
    storage.LUSTRE_IN_ANOTHER_ZONE.code,
    storage.LUSTRE_PATH_OUTSIDE_MOUNT.code,
    storage.LUSTRE_PORTS_CLOSED.code,
)
_WAY_OUT = (network.NO_WAY_OUT.code,)
_DATA = (
    storage.BUCKET_UNUSABLE.code,
    storage.S3_ACCESS_DENIED.code,
    storage.ROLE_INSUFFICIENT.code,
    *_WAY_OUT,
)
OF_NETWORK = frozenset((*_BETWEEN_HOSTS, *_LUSTRE, *_WAY_OUT))
"""Those for which network and file system have to be asked for, and nothing else."""

_SUSPECTS: Mapping[str, tuple[str, ...]] = {
    network.NO_INGRESS_FROM_ITSELF.code: _BETWEEN_HOSTS,
    network.NO_EGRESS_TO_ITSELF.code: _BETWEEN_HOSTS,
    nccl.COLLECTIVE_TIMED_OUT.code: _BETWEEN_HOSTS,
    nccl.SYSTEM_ERROR.code: _BETWEEN_HOSTS,
    nccl.CLOSED_BY_PEER.code: _BETWEEN_HOSTS,
    nccl.INITIALISATION_STALLED.code: _BETWEEN_HOSTS,
    nccl.RENDEZVOUS_TIMED_OUT.code: _BETWEEN_HOSTS,
    nccl.MPI_DAEMON_LOST.code: _BETWEEN_HOSTS,
    network.NO_WAY_OUT.code: _WAY_OUT,
    storage.LUSTRE_MOUNT_FAILED.code: _LUSTRE,
    storage.BUCKET_UNUSABLE.code: _DATA,
    storage.S3_ACCESS_DENIED.code: _DATA,
    storage.ROLE_INSUFFICIENT.code: _DATA,
    checkpoints.LARGE_UPLOAD_FAILS.code: _DATA,
    capacity.NO_CAPACITY.code: (capacity.QUOTA_TOO_SMALL.code,),
    capacity.QUOTA_TOO_SMALL.code: (capacity.QUOTA_TOO_SMALL.code,),
}
"""By the code of a root cause: the codes that the live stage can verify and that may lie behind it."""


def suspects_of(diagnosis: Diagnosis, hosts: int | None) -> tuple[str, ...]:
    """The codes to ask the account for; none where it cannot be the cause.

    What keeps hosts from one another cannot be, where there is one host, or a rank has made a step.
    """
    cause = diagnosis.root_cause
    if cause is None or not diagnosis.verdict.is_bad:
        return ()
    codes = _SUSPECTS.get(cause.finding.code, ())
    met = (hosts or 1) < 2 or any(row.step is not None for row in diagnosis.ranks)
    return tuple(code for code in codes if not (met and code in _BETWEEN_HOSTS))


def checked(subject: LiveSubject, codes: Sequence[str]) -> tuple[AccountCheck, ...]:
    """What the account shows of each code: what is wrong, what could not be seen, or that it is right."""
    found = check_account(subject, codes)
    checks: list[AccountCheck] = []
    for code in codes:
        things = list(_looked_at(subject, code))
        if things:
            checks += _of_code(code, things, [each for each in found if each.code == code])
    return tuple(checks)


def _of_code(code: str, things: Collection[str], found: Sequence[Finding]) -> Iterator[AccountCheck]:
    serious = [each for each in found if each.verified and each.severity is Severity.ERROR]
    unseen = [each for each in found if not each.verified]
    for each in serious or unseen:
        outcome = CheckOutcome.WRONG if each.verified else CheckOutcome.NOT_VERIFIED
        yield AccountCheck(code, outcome, each.message, each.remedy)
    if not serious and not unseen:
        verb = "is" if len(things) == 1 else "are"
        said = f"{', '.join(things)} {verb} right, so not {code} ({CATALOGUE[code].title})"
        yield AccountCheck(code, CheckOutcome.RIGHT, said)


def _looked_at(subject: LiveSubject, code: str) -> Iterator[str]:
    """What a code is about, of this job; nothing where the job has nothing of the kind."""
    if code in _BETWEEN_HOSTS[:2]:
        yield from (f"security group {each}" for each in subject.group_ids)
    elif code in _BETWEEN_HOSTS or code in _WAY_OUT:
        yield from (f"subnet {each}" for each in subject.subnet_ids)
    elif code in _LUSTRE:
        yield from dict.fromkeys(f"file system {each.file_system_id}" for each in subject.mounts)
    elif code == storage.ROLE_INSUFFICIENT.code:
        yield f"role {subject.request.role_arn}"
    elif code == capacity.QUOTA_TOO_SMALL.code:
        yield f"quota and zones of {subject.instance_type}"
    else:
        yield from dict.fromkeys(f"bucket {each.bucket}" for each in subject.places)
