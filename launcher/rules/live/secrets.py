"""The job's secrets: whether the execution role may read them (IAM002)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.facts import Unverified
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.live.rule import could_not_verify
from launcher.rules.live.subject import LiveSubject

_SERVICE = "secretsmanager"


@finds(Stage.LIVE, storage.SECRET_UNREADABLE)
def role_may_read_the_secrets(subject: LiveSubject) -> Iterator[Finding]:
    """What IAM's simulation denies for certain, and what only the policy of a secret could still allow."""
    permissions = subject.account.permissions
    if permissions is None or not subject.request.secrets:
        return
    if isinstance(permissions, Unverified):
        yield could_not_verify(storage.SECRET_UNREADABLE, permissions)
        return
    for action, secret in permissions.denied:
        if is_about_secrets(action):
            yield storage.SECRET_UNREADABLE.at(
                ("secrets",),
                f"the role {permissions.principal} may not {action} on {secret}: the job would end on billed "
                "hosts before its script starts",
                stage=Stage.LIVE,
                subject=secret,
            )
    for action, secret in permissions.undecided:
        if is_about_secrets(action):
            yield storage.SECRET_UNREADABLE.at(
                ("secrets",),
                f"could not verify that the role {permissions.principal} may {action} on {secret}: its own "
                "policies do not say so for this ARN, and the secret's own policy may; if it does not, the "
                "job ends on billed hosts before its script starts",
                severity=Severity.WARNING,
                stage=Stage.LIVE,
                subject=secret,
                verified=False,
            )


def is_about_secrets(action: str) -> bool:
    """Whether an IAM action is about secrets."""
    return action.partition(":")[0] == _SERVICE
