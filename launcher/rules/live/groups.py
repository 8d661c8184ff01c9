"""The security groups of the job: whether its hosts may talk to one another (EFA001, EFA002)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.cluster.security_groups import Direction, Passage, SecurityGroup
from launcher.cluster.training_network import efa_passage
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject


@live_rule(network.NO_INGRESS_FROM_ITSELF, "groups")
def groups_exist(subject: LiveSubject) -> Iterator[Finding]:
    """A group that is not there admits nobody, and the request is refused."""
    for group_id in subject.group_ids:
        if subject.network.group(group_id) is None:
            yield network.NO_INGRESS_FROM_ITSELF.at(
                ("network", "security_group_ids"),
                f"the security group {group_id} does not exist in {subject.account.region}: the job would "
                "be refused",
                remedy="Correct `network.security_group_ids`, or leave it out to use the cluster's.",
                stage=Stage.LIVE,
                subject=group_id,
            )


@live_rule(network.NO_INGRESS_FROM_ITSELF, "groups")
def hosts_admit_each_other(subject: LiveSubject) -> Iterator[Finding]:
    """A group of the hosts admits all traffic from its own members."""
    yield from _to_itself(subject, network.NO_INGRESS_FROM_ITSELF, "ingress")


@live_rule(network.NO_EGRESS_TO_ITSELF, "groups")
def hosts_may_send_to_each_other(subject: LiveSubject) -> Iterator[Finding]:
    """A group of the hosts lets all traffic out to its own members; 0.0.0.0/0 does not stand in for it."""
    yield from _to_itself(subject, network.NO_EGRESS_TO_ITSELF, "egress")


def carrier(groups: Sequence[SecurityGroup]) -> SecurityGroup | None:
    """The group by which the hosts talk: the first with both rules, else the nearest to it.

    Both rules must be in one group (EC2 user guide, create-efa); on the hosts of a job one such group
    is enough, whatever the others say.
    """
    return max(groups, key=_nearness, default=None)


def carries_efa(group: SecurityGroup, direction: Direction) -> bool:
    """Whether EFA traffic passes between the group's own members one way."""
    return efa_passage(group, direction) is Passage.OPEN


def _nearness(group: SecurityGroup) -> tuple[int, bool]:
    admits, sends = carries_efa(group, "ingress"), carries_efa(group, "egress")
    return admits + sends, admits


def _to_itself(subject: LiveSubject, mode: FailureMode, direction: Direction) -> Iterator[Finding]:
    groups = subject.network.groups
    chosen = carrier(groups)
    if chosen is None:
        return
    carried = _nearness(chosen)[0] == 2
    for group in groups:
        if carries_efa(group, direction) or (group is not chosen and not carried):
            continue
        yield _finding(subject, mode, direction, group, beside=chosen if carried else None)


def _finding(
    subject: LiveSubject,
    mode: FailureMode,
    direction: Direction,
    group: SecurityGroup,
    *,
    beside: SecurityGroup | None,
) -> Finding:
    way = "ingress from" if direction == "ingress" else "egress to"
    lack = f"{group.id} has no {way} itself for all traffic (its {direction}: {group.in_words(direction)})"
    others = [
        each.id for each in subject.network.groups if each.id != group.id and carries_efa(each, direction)
    ]
    if beside is not None:
        severity = Severity.WARNING if subject.hosts > 1 else Severity.INFO
        outcome = f"{beside.id} carries the traffic of this job, but {group.id} alone would not"
    elif subject.hosts > 1:
        severity = Severity.ERROR
        outcome = (
            f"the {subject.hosts} hosts would start, be billed, and stand still at NCCL initialisation"
            + (f" ({', '.join(others)} has this rule, but not its counterpart)" if others else "")
        )
    else:
        severity, outcome = Severity.INFO, "one host does not need it, several would stand still"
    return mode.at(
        ("network", "security_group_ids"),
        f"{lack}: {outcome}",
        severity=severity,
        stage=Stage.LIVE,
        subject=group.id,
    )
