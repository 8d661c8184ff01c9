"""The buckets and prefixes that the job reads and writes (S3001, S3002)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.account.facts import Unverified
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.rule import could_not_verify, live_rule
from launcher.rules.live.subject import LiveSubject, S3Location, known

_DATA_SERVICES = ("s3", "kms")
"""What is denied of these keeps the role from its data, S3002; the rest is IAM001."""


@live_rule(storage.BUCKET_UNUSABLE)
def buckets_are_in_the_region(subject: LiveSubject) -> Iterator[Finding]:
    """Each bucket exists, and in the job's region."""
    for name, fact in subject.account.buckets.items():
        uses = [place for place in subject.places if place.bucket == name]
        region = subject.account.region
        if isinstance(fact, Unverified):
            yield could_not_verify(storage.BUCKET_UNUSABLE, fact)
        elif fact is None:
            problem = f"the bucket {name}{_used_for(uses)} does not exist"
            yield _unusable(name, uses, f"{problem}: the job would fail, hosts and all")
        elif fact.region != region:
            problem = f"the bucket {name}{_used_for(uses)} is in {fact.region}, the job in {region}"
            yield _unusable(name, uses, f"{problem}: SageMaker would refuse it")


@live_rule(storage.BUCKET_UNUSABLE)
def inputs_are_not_empty(subject: LiveSubject) -> Iterator[Finding]:
    """There is something to read below the prefix of every input."""
    for place in subject.inputs:
        fact = subject.account.prefixes.get(place.uri)
        if fact is None or isinstance(fact, Unverified) or fact.objects:
            continue
        if place.bucket in subject.account.buckets and subject.account.buckets[place.bucket] is None:
            continue
        yield _unusable(
            place.uri,
            [place],
            f"there is nothing at {place.uri}, the {place.what}: the job would fail after its hosts were "
            "acquired",
        )


@live_rule(storage.S3_ACCESS_DENIED)
def inputs_can_be_listed(subject: LiveSubject) -> Iterator[Finding]:
    """What the caller may not list cannot be judged, though the role may be allowed to."""
    for fact in subject.account.prefixes.values():
        if isinstance(fact, Unverified):
            yield could_not_verify(storage.S3_ACCESS_DENIED, fact)


@live_rule(storage.S3_ACCESS_DENIED, "permissions")
def role_reaches_its_data(subject: LiveSubject) -> Iterator[Finding]:
    """What IAM's simulation denies to the role of S3 and of the key that encrypts it."""
    permissions = known(subject.account.permissions)
    if permissions is None:
        return
    denied: dict[str, list[str]] = {}
    for action, resource in permissions.denied:
        if is_about_data(action):
            denied.setdefault(resource, []).append(action)
    for resource, actions in denied.items():
        yield storage.S3_ACCESS_DENIED.at(
            ("role_arn",),
            f"the role {permissions.principal} may not {', '.join(actions)} on {resource}: the job would "
            "fail, at its end where it is the output that is refused",
            stage=Stage.LIVE,
            subject=resource,
        )


@live_rule(storage.S3_ACCESS_DENIED, "permissions")
def keys_may_admit_the_role(subject: LiveSubject) -> Iterator[Finding]:
    """What only the policy of a key can decide, which the simulation does not look at."""
    permissions = known(subject.account.permissions)
    for action, resource in permissions.undecided if permissions is not None else ():
        if not is_about_data(action):
            continue
        yield storage.S3_ACCESS_DENIED.at(
            ("role_arn",),
            f"could not verify that the role {subject.request.role_arn} may {action} on {resource}: its "
            "own policies do not say so, and the policy of the resource may",
            severity=Severity.WARNING,
            stage=Stage.LIVE,
            subject=resource,
            verified=False,
        )


def is_about_data(action: str) -> bool:
    """Whether an IAM action is about data: objects, buckets and the keys that encrypt them."""
    return action.partition(":")[0] in _DATA_SERVICES


def _used_for(uses: Sequence[S3Location]) -> str:
    return f" ({', '.join(dict.fromkeys(place.what for place in uses))})" if uses else ""


def _unusable(name: str, uses: Sequence[S3Location], message: str) -> Finding:
    path = uses[0].path if uses else ()
    return storage.BUCKET_UNUSABLE.at(path, message, stage=Stage.LIVE, subject=name)
