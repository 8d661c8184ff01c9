"""All live rules in the order of their findings, the security group rules to add, and suspects after a
failure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from launcher.account.facts import Unverified
from launcher.cluster.traffic import ALL_TRAFFIC, Direction, Passage, SecurityGroupRule, ports_in_words
from launcher.diagnosis.model import AccountCheck, CheckOutcome, Diagnosis
from launcher.failure_modes import capacity, checkpoints, nccl, network, storage
from launcher.failure_modes.model import Finding, Severity
from launcher.failure_modes.registry import CATALOGUE, REGISTRY
from launcher.frozen import frozen
from launcher.rules.live.account_rules import (
    caller_may_submit,
    image_exists,
    quota_has_room,
    role_has_what_the_job_needs,
    role_may_read_the_secrets,
    role_trusts_sagemaker,
    type_is_in_the_zone,
    warm_pool_has_room,
)
from launcher.rules.live.network_rules import (
    acls_let_https_pass,
    carrier,
    carries_efa,
    groups_exist,
    hosts_admit_each_other,
    hosts_find_their_addresses,
    hosts_may_send_to_each_other,
    hosts_reach_aws,
    hosts_share_a_zone,
    network_is_one,
    subnets_exist,
    subnets_of_a_zone_are_connected,
)
from launcher.rules.live.storage_rules import (
    buckets_are_in_the_region,
    checkpoints_are_the_jobs_own,
    downloads_are_small,
    file_system_is_available,
    file_system_is_in_the_jobs_vpc,
    file_system_is_in_the_jobs_zone,
    inputs_are_not_empty,
    inputs_can_be_listed,
    keys_may_admit_the_role,
    large_data_is_mounted,
    lustre_ports_are_open,
    mounted_links_work,
    nothing_lies_at_the_checkpoints,
    paths_begin_with_the_mount_name,
    role_reaches_its_data,
    sides,
)
from launcher.rules.live.subject import LiveSubject

RULES: tuple[Callable[[LiveSubject], Iterator[Finding]], ...] = (
    groups_exist,
    hosts_admit_each_other,
    hosts_may_send_to_each_other,
    hosts_reach_aws,
    acls_let_https_pass,
    subnets_exist,
    hosts_find_their_addresses,
    network_is_one,
    hosts_share_a_zone,
    subnets_of_a_zone_are_connected,
    file_system_is_available,
    file_system_is_in_the_jobs_vpc,
    file_system_is_in_the_jobs_zone,
    paths_begin_with_the_mount_name,
    lustre_ports_are_open,
    mounted_links_work,
    downloads_are_small,
    large_data_is_mounted,
    buckets_are_in_the_region,
    inputs_are_not_empty,
    inputs_can_be_listed,
    role_reaches_its_data,
    keys_may_admit_the_role,
    role_trusts_sagemaker,
    role_has_what_the_job_needs,
    role_may_read_the_secrets,
    caller_may_submit,
    checkpoints_are_the_jobs_own,
    nothing_lies_at_the_checkpoints,
    quota_has_room,
    warm_pool_has_room,
    type_is_in_the_zone,
    image_exists,
)


def check_account(subject: LiveSubject, codes: Collection[str] | None = None) -> list[Finding]:
    """What every rule finds, or those that find one of the codes.

    What could not be verified is said once for each code and fact.
    """
    rules = RULES if codes is None else tuple(rule for rule in RULES if _codes_of(rule) & set(codes))
    found = (finding for rule in rules for finding in rule(subject))
    return list(dict.fromkeys(found))


def _codes_of(rule: Callable[[LiveSubject], Iterator[Finding]]) -> set[str]:
    return {mode.code for each in REGISTRY if each.function is rule for mode in each.modes}


_DIRECTIONS: tuple[tuple[Direction, str], ...] = (
    ("ingress", network.NO_INGRESS_FROM_ITSELF.code),
    ("egress", network.NO_EGRESS_TO_ITSELF.code),
)


@frozen
class MissingRule:
    """A rule to add to a security group: what passes between its members and those of `peer`.

    `protocol` is `tcp`, or `-1` for all traffic, which has no `ports`; `code` is the failure mode that
    the rule fixes.
    """

    group_id: str
    direction: Direction
    protocol: str
    ports: tuple[int, int] | None
    peer: str
    code: str

    @property
    def rule(self) -> SecurityGroupRule:
        """The rule as the account holds it."""
        first, last = self.ports or (None, None)
        return SecurityGroupRule(self.direction, self.protocol, first, last, groups=(self.peer,))

    def __str__(self) -> str:
        traffic = ports_in_words(self.ports) if self.ports else "all traffic"
        way = "from" if self.direction == "ingress" else "to"
        peer = f"{self.peer} (itself)" if self.peer == self.group_id else self.peer
        return f"{self.direction}: {traffic} {way} {peer}"


def missing_rules(subject: LiveSubject) -> tuple[MissingRule, ...]:
    """The rules without which EFA001, EFA002 and FSX004 are found; none where a fact is not known.

    They name groups as peers, never ranges. EFA's go to the one group that is nearest to carrying the
    traffic, Lustre's to the first group of either side.
    """
    to_itself = tuple(_to_itself(subject))
    opened = {(each.group_id, each.direction, each.peer) for each in to_itself}
    lustre = (each for each in _lustre(subject) if (each.group_id, each.direction, each.peer) not in opened)
    return tuple(dict.fromkeys((*to_itself, *lustre)))


def _to_itself(subject: LiveSubject) -> Iterator[MissingRule]:
    group = carrier(subject.network.groups)
    if group is None:
        return
    for direction, code in _DIRECTIONS:
        if not carries_efa(group, direction):
            yield MissingRule(group.id, direction, ALL_TRAFFIC, None, group.id, code)


def _lustre(subject: LiveSubject) -> Iterator[MissingRule]:
    account = subject.account
    if isinstance(account.file_system_groups, Unverified) or isinstance(account.subnets, Unverified):
        return
    for side in sides(subject):
        for ports in side.ports(Passage.CLOSED):
            yield MissingRule(
                side.groups[0].id,
                side.direction,
                "tcp",
                ports,
                side.peers[0].id,
                storage.LUSTRE_PORTS_CLOSED.code,
            )


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
            checks += _checks_of_code(code, things, [each for each in found if each.code == code])
    return tuple(checks)


def _checks_of_code(code: str, things: Collection[str], found: Sequence[Finding]) -> Iterator[AccountCheck]:
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
