"""Secrets that the cluster's role may read: IAM002."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.secret_ids import names_the_same
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, storage.SECRET_UNREADABLE)
def secrets_are_the_clusters(subject: JobSubject) -> Iterator[Finding]:
    """Each secret of a job with the cluster's role is among those of the cluster.

    A warning: whoever looks after the role may have let it read more.
    """
    cluster, job = subject.cluster, subject.job
    if cluster is None or job.role_arn is not None or subject.here:
        return
    for variable, secret in job.secrets.items():
        if not any(names_the_same(secret, known) for known in cluster.secrets):
            has = ", ".join(cluster.secrets) or "none"
            yield storage.SECRET_UNREADABLE.at(
                ("secrets", variable),
                f"{secret} is not among the secrets of the cluster {cluster.name} ({has}): unless its role "
                "was allowed to read it otherwise, the job ends on billed hosts before its script starts",
                remedy=f"Add {secret} to `secrets` of the cluster file and deploy.",
                severity=Severity.WARNING,
            )
