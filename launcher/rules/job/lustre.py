"""The Lustre file system that a job mounts: where it lies, and which paths it has."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.manifest import Lustre
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, storage.LUSTRE_IN_ANOTHER_ZONE)
def lustre_is_in_the_jobs_zone(subject: JobSubject) -> Iterator[Finding]:
    """The subnets that the user chose, or a cluster that has none in the file system's zone.

    Where the cluster has some, the plan chooses them.
    """
    cluster = subject.cluster
    if cluster is None or cluster.lustre is None or not any(_paths(subject)):
        return
    zones = {subnet.id: subnet.availability_zone for subnet in cluster.subnets}
    home = cluster.lustre.availability_zone
    given = subject.job.network.subnets or ([] if home in zones.values() else list(zones))
    elsewhere = [name for name in given if name in zones and zones[name] != home]
    if elsewhere:
        named = ", ".join(f"{name} in {zones[name]}" for name in elsewhere)
        yield storage.LUSTRE_IN_ANOTHER_ZONE.at(
            ("network", "subnets"),
            f"the job may be placed in {named}, but its file system {cluster.lustre.id} is in {home}: it "
            "would fail to mount it, or read across zones",
            remedy="Leave `network.subnets` out, or set it to the file system's own subnet, "
            f"{cluster.lustre.subnet_id}.",
        )


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def lustre_paths_are_below_the_mount(subject: JobSubject) -> Iterator[Finding]:
    """The plan puts the mount name before a path; it must stay below it, and not name it twice."""
    for field, path in _paths(subject):
        lustre = subject.cluster.lustre if subject.cluster else None
        problem, severity = _problem(path, lustre)
        if problem:
            yield storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
                field,
                f"{path} {problem}",
                severity=severity,
            )


def _paths(subject: JobSubject) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, source in subject.job.inputs.items():
        if source.lustre is not None:
            yield ("inputs", name, "lustre"), source.lustre
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.lustre is not None:
        yield ("checkpoint", "lustre"), checkpoint.lustre


def _problem(path: str, lustre: Lustre | None) -> tuple[str | None, Severity]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        return "leaves the file system's mount with `..`: the mount would be refused", Severity.ERROR
    if lustre is not None and parts[:1] == [lustre.mount_name]:
        twice = f"/{lustre.mount_name}{path}"
        return (
            f"begins with the mount name, which the plan adds by itself: the job would mount {twice}, and "
            "fail unless there is a directory of that name",
            Severity.WARNING,
        )
    return None, Severity.ERROR
