"""What the account lets the job have and do: hosts, the image, the role and the secrets."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.facts import Permissions, Quota, Unverified
from launcher.cluster.instances import find_hint
from launcher.cluster.names import SAGEMAKER_PRINCIPAL, SHELL_ACTIONS
from launcher.failure_modes import capacity, images, storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.live.storage_rules import is_about_data
from launcher.rules.live.subject import LiveSubject, could_not_verify, known, live_rule


@live_rule(capacity.QUOTA_TOO_SMALL, "quota")
def quota_has_room(subject: LiveSubject) -> Iterator[Finding]:
    """What is in use and what is wanted, against the quota of on-demand or spot hosts."""
    yield from _judged(subject, known(subject.account.quota), "the submission would be refused")


@live_rule(capacity.QUOTA_TOO_SMALL, "warm_pool_quota")
def warm_pool_has_room(subject: LiveSubject) -> Iterator[Finding]:
    """Hosts that are kept after the job count against a quota of their own, which begins at 0."""
    yield from _judged(subject, known(subject.account.warm_pool_quota), "its hosts could not be kept")


@live_rule(capacity.QUOTA_TOO_SMALL, "offered_in", "subnets")
def type_is_in_the_zone(subject: LiveSubject) -> Iterator[Finding]:
    """EC2 says which zones have a type; SageMaker may have it in others, so this is an information."""
    offered = known(subject.account.offered_in)
    zones = dict.fromkeys(each.availability_zone for each in subject.network.subnets)
    if offered is None or not zones or not offered.isdisjoint(zones):
        return
    elsewhere = f"it does in {', '.join(sorted(offered))}" if offered else "nor elsewhere in the region"
    yield capacity.QUOTA_TOO_SMALL.at(
        ("resources", "instance_type"),
        f"EC2 does not offer {subject.instance_type.removeprefix('ml.')} in {', '.join(zones)}, the zones of "
        f"the job's subnets ({elsewhere}): the job may wait for capacity that does not come",
        remedy="Name a subnet in a zone that has the type, or choose another type."
        + find_hint(subject.instance_type, subject.hosts_at_once),
        severity=Severity.INFO,
        stage=Stage.LIVE,
        subject=subject.instance_type,
    )


def _judged(subject: LiveSubject, quota: Quota | None, outcome: str) -> Iterator[Finding]:
    wanted = subject.hosts_at_once
    if quota is None or quota.in_use + wanted <= quota.limit:
        return
    used = f", of which {quota.in_use} are in use" if quota.in_use else ""
    needed = quota.in_use + wanted
    yield capacity.QUOTA_TOO_SMALL.at(
        ("resources", "instance_count"),
        f"the quota '{quota.name}' ({quota.code}) is {quota.limit:g}{used}, and the job wants {wanted}: "
        f"{outcome}",
        remedy=f"Request an increase of '{quota.name}' in Service Quotas to at least {needed}, "
        "stop jobs and warm pools that hold it, or use fewer hosts or another type."
        + find_hint(subject.instance_type, wanted, live=True),
        stage=Stage.LIVE,
        subject=quota.name,
    )


@live_rule(images.IMAGE_UNAVAILABLE, "image")
def image_exists(subject: LiveSubject) -> Iterator[Finding]:
    """The registry has the tag or digest, and is in the job's region."""
    image, region = known(subject.account.image), subject.account.region
    if image is None:
        return
    if not image.exists:
        yield _image_unavailable(subject, image.uri, f"the registry has no image {image.uri}")
    elif image.region not in (None, region):
        yield _image_unavailable(
            subject, image.uri, f"the image {image.uri} is in {image.region}, the job in {region}"
        )


def _image_unavailable(subject: LiveSubject, uri: str, problem: str) -> Finding:
    return images.IMAGE_UNAVAILABLE.at(
        ("image" if subject.job is None or subject.job.image is not None else "framework",),
        f"{problem}: the job would be refused, or fail after waiting for its hosts",
        stage=Stage.LIVE,
        subject=uri,
    )


@live_rule(storage.ROLE_INSUFFICIENT, "role", absence_counts=True)
def role_trusts_sagemaker(subject: LiveSubject) -> Iterator[Finding]:
    """The role exists, and its trust policy names the service."""
    arn, role = subject.request.role_arn, known(subject.account.role)
    if role is None:
        yield _role_insufficient(
            subject,
            f"the role {arn} does not exist: the submission would be refused",
            "Correct `role_arn`, or leave it out to use the cluster's.",
        )
    elif not {SAGEMAKER_PRINCIPAL, "*"} & set(role.trusted):
        trusted = ", ".join(role.trusted) or "nobody"
        yield _role_insufficient(
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
        yield _role_insufficient(
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
        yield _role_insufficient(
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


def _role_insufficient(subject: LiveSubject, message: str, remedy: str | None = None) -> Finding:
    return storage.ROLE_INSUFFICIENT.at(
        ("role_arn",),
        message,
        remedy=remedy,
        stage=Stage.LIVE,
        subject=subject.request.role_arn,
    )


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
