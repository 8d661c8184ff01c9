"""Whether another job is using the place of the checkpoints (CKPT001)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, known


@live_rule(checkpoints.PREFIX_NOT_UNIQUE, "running_jobs")
def checkpoints_are_the_jobs_own(subject: LiveSubject) -> Iterator[Finding]:
    """The same prefix, one above or one below: each start downloads all that lies beneath its own."""
    own = subject.checkpoints
    if own is None:
        return
    for job in known(subject.account.running_jobs) or ():
        # A job of this very name is this one, whose submission was not confirmed.
        if job.checkpoints is None or job.name == subject.request.name:
            continue
        relation = _relation(own.uri, job.checkpoints)
        if relation:
            yield checkpoints.PREFIX_NOT_UNIQUE.at(
                own.path,
                f"the checkpoint prefix {own.uri} {relation} of the running job {job.name} "
                f"({job.checkpoints}): the two would download, overwrite and delete each other's files",
                stage=Stage.LIVE,
                subject=job.name,
            )


@live_rule(checkpoints.PREFIX_NOT_UNIQUE)
def nothing_lies_at_the_checkpoints(subject: LiveSubject) -> Iterator[Finding]:
    """What lies there before the first start is not this job's."""
    own = subject.checkpoints
    held = None if own is None else known(subject.account.prefixes.get(own.uri))
    if own is not None and held is not None and held.objects:
        yield checkpoints.PREFIX_NOT_UNIQUE.at(
            own.path,
            f"there are objects at the checkpoint prefix {own.uri} already: every host would download them "
            "at its start, and the script might resume from them",
            severity=Severity.WARNING,
            stage=Stage.LIVE,
            subject=own.uri,
        )


def _relation(own: str, other: str) -> str | None:
    one, two = f"{own.rstrip('/')}/", f"{other.rstrip('/')}/"
    if one == two:
        return "is that"
    if one.startswith(two):
        return "lies below that"
    return "contains that" if two.startswith(one) else None
