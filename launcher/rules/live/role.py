"""The execution role: whether it is there, SageMaker may take it on, and it has what it needs (IAM001)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.facts import Permissions
from launcher.cluster.sagemaker_names import SAGEMAKER_PRINCIPAL, SHELL_ACTIONS
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.buckets import is_about_data
from launcher.rules.live.rule import live_rule
from launcher.rules.live.secrets import is_about_secrets
from launcher.rules.live.subject import LiveSubject, known


@live_rule(storage.ROLE_INSUFFICIENT, "role", absence_counts=True)
def role_trusts_sagemaker(subject: LiveSubject) -> Iterator[Finding]:
    """The role exists, and its trust policy names the service."""
    arn, role = subject.request.role_arn, known(subject.account.role)
    if role is None:
        yield _finding(
            subject,
            f"the role {arn} does not exist: the submission would be refused",
            "Correct `role_arn`, or leave it out to use the cluster's.",
        )
    elif not {SAGEMAKER_PRINCIPAL, "*"} & set(role.trusted):
        trusted = ", ".join(role.trusted) or "nobody"
        yield _finding(
            subject,
            f"the role {arn} trusts {trusted}, not {SAGEMAKER_PRINCIPAL}: the submission would be refused",
            f"Let its trust policy allow sts:AssumeRole to the service {SAGEMAKER_PRINCIPAL}.",
        )


@live_rule(storage.ROLE_INSUFFICIENT, "permissions")
def role_has_what_the_job_needs(subject: LiveSubject) -> Iterator[Finding]:
    """What IAM's simulation denies to the role, but for its data, which is S3002, and its secrets, IAM002."""
    permissions = known(subject.account.permissions)
    lacking = _lacking(permissions) if permissions else ""
    if permissions and lacking:
        yield _finding(
            subject,
            f"the role {permissions.principal} may not {lacking}: the job would fail, on billed hosts",
        )
    if permissions:
        yield from _no_shell(permissions)


@live_rule(storage.ROLE_INSUFFICIENT, "caller")
def caller_may_submit(subject: LiveSubject) -> Iterator[Finding]:
    """The caller may create the job and pass the role to SageMaker."""
    caller = known(subject.account.caller)
    if caller and caller.denied:
        denied = "; ".join(f"{action} on {resource}" for action, resource in caller.denied)
        yield _finding(
            subject,
            f"{caller.principal} may not {denied}: the submission would be refused",
            "Attach the cluster's launcher policy, or ask for the actions named.",
        )


def _no_shell(permissions: Permissions) -> Iterator[Finding]:
    """The agent in the container speaks to Systems Manager with the role. A warning: the job runs without."""
    lacking = [action for action, _ in permissions.denied if action in SHELL_ACTIONS]
    if lacking:
        yield storage.ROLE_INSUFFICIENT.at(
            ("debug", "remote"),
            f"the role {permissions.principal} may not {', '.join(lacking)}: the job would run, and no shell "
            "could be opened in it",
            remedy="Let the role do so on all resources (these actions know none), or remove `debug.remote`.",
            severity=Severity.WARNING,
            stage=Stage.LIVE,
            subject=permissions.principal,
        )


def _lacking(permissions: Permissions) -> str:
    by_resource: dict[str, list[str]] = {}
    for action, resource in permissions.denied:
        elsewhere = is_about_data(action) or is_about_secrets(action) or action in SHELL_ACTIONS
        if not elsewhere:
            by_resource.setdefault(resource, []).append(action)
    return "; ".join(f"{', '.join(actions)} on {resource}" for resource, actions in by_resource.items())


def _finding(subject: LiveSubject, message: str, remedy: str | None = None) -> Finding:
    return storage.ROLE_INSUFFICIENT.at(
        ("role_arn",),
        message,
        remedy=remedy,
        stage=Stage.LIVE,
        subject=subject.request.role_arn,
    )
