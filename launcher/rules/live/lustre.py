"""The Lustre file system that the job mounts: its state, its zone, its paths (FSX001 to FSX003)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.file_system import FileSystem
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Stage
from launcher.planning.request_parts import FileSystemChannel
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, known

TRANSIENT = frozenset({"CREATING"})
"""The lifecycles that end by themselves (FSx API reference, FileSystem)."""


@live_rule(storage.LUSTRE_NOT_AVAILABLE, "file_system", absence_counts=True)
def file_system_is_available(subject: LiveSubject) -> Iterator[Finding]:
    """It is AVAILABLE, or UPDATING, which serves as well; in any other state the mount fails."""
    if not subject.mounts:
        return
    wanted, found = subject.mounts[0], known(subject.account.file_system)
    if found is None:
        yield _unavailable(
            subject,
            wanted,
            f"the file system {wanted.file_system_id} does not exist in {subject.account.region}",
            "Deploy the cluster again, or read the data from S3.",
        )
    elif not found.serves:
        reason = f": {found.failure}" if found.failure else ""
        wait = found.lifecycle in TRANSIENT
        yield _unavailable(
            subject,
            wanted,
            f"the file system {found.id} is {found.lifecycle}{reason}",
            "Wait until it is AVAILABLE; `launch JOB.yaml` waits by itself." if wait else None,
        )


@live_rule(storage.LUSTRE_IN_ANOTHER_ZONE, "file_system", "subnets")
def file_system_is_in_the_jobs_zone(subject: LiveSubject) -> Iterator[Finding]:
    """The file system must be in the zone of every subnet, as the job may be placed in any of them."""
    found = known(subject.account.file_system)
    if found is None or found.availability_zone is None:
        return
    elsewhere = [
        f"{each.id} in {each.availability_zone}"
        for each in subject.network.subnets
        if each.availability_zone != found.availability_zone
    ]
    if elsewhere:
        yield storage.LUSTRE_IN_ANOTHER_ZONE.at(
            ("network", "subnets"),
            f"the job may be placed in {', '.join(elsewhere)}, but its file system {found.id} is in "
            f"{found.availability_zone}: it would fail to mount it, or read across zones",
            remedy=f"Set `network.subnets` to a subnet in {found.availability_zone}, such as the file "
            f"system's own, {found.subnet_id}.",
            stage=Stage.LIVE,
            subject=found.id,
        )


@live_rule(storage.LUSTRE_PATH_OUTSIDE_MOUNT, "file_system")
def paths_begin_with_the_mount_name(subject: LiveSubject) -> Iterator[Finding]:
    """The name that FSx itself reports; a manifest may be older than the file system."""
    found = known(subject.account.file_system)
    if found is None or found.mount_name is None:
        return
    for mount in subject.mounts:
        if mount.file_system_id == found.id and not _is_below(mount, found):
            yield storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
                ("inputs", mount.name),
                f"the channel {mount.name} mounts {mount.directory}, but the mount name of {found.id} is "
                f"{found.mount_name}: the mount would be refused",
                remedy=f"The path must begin with /{found.mount_name}. Where the cluster's manifest has "
                "another mount name, deploy the cluster again.",
                stage=Stage.LIVE,
                subject=found.id,
            )


def _is_below(mount: FileSystemChannel, file_system: FileSystem) -> bool:
    root = f"/{file_system.mount_name}"
    return mount.directory == root or mount.directory.startswith(f"{root}/")


def _unavailable(subject: LiveSubject, mount: FileSystemChannel, problem: str, remedy: str | None) -> Finding:
    return storage.LUSTRE_NOT_AVAILABLE.at(
        ("inputs", mount.name),
        f"{problem}: the {subject.hosts} hosts would start, be billed, and fail at the mount",
        remedy=remedy,
        stage=Stage.LIVE,
        subject=mount.file_system_id,
    )
