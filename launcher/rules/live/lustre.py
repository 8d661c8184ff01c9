"""The Lustre file system that the job mounts: its state, zone, network and paths (FSX001 to FSX004)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.file_system import FileSystem
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Severity, Stage
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
            f"the file system {wanted.file_system_id} does not exist in {subject.account.region}, the "
            "region of the job",
            "Run the job in the region of its file system, deploy the cluster again, or read the data from "
            "S3.",
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


@live_rule(storage.LUSTRE_PORTS_CLOSED, "file_system", "subnets")
def file_system_is_in_the_jobs_vpc(subject: LiveSubject) -> Iterator[Finding]:
    """In another VPC its security groups cannot admit the hosts, and no route of their own leads there.

    VPCs may be connected, which no fact shows in full: where a route leads out of the hosts' subnets in
    another way than to the internet, it cannot be verified.
    """
    found, subnets = known(subject.account.file_system), subject.network.subnets
    vpcs = dict.fromkeys(subnet.vpc_id for subnet in subnets)
    if found is None or found.vpc_id is None or not vpcs or list(vpcs) == [found.vpc_id]:
        return
    tables = known(subject.account.route_tables)
    connected = tables is None or any(
        route.kind == "other" and route.active for table in tables for route in table.routes
    )
    place = f"the file system {found.id} is in {found.vpc_id}, the job's hosts in {', '.join(vpcs)}"
    yield storage.LUSTRE_PORTS_CLOSED.at(
        ("network", "subnets"),
        f"could not verify that Lustre's traffic passes: {place}, which may be connected"
        if connected
        else f"{place}, and no route leads from one to the other: the mount would time out, on billed hosts",
        remedy="Give the job subnets and security groups of the file system's VPC in `network`, such as the "
        f"file system's own subnet, {found.subnet_id}; or use a file system in the job's VPC.",
        severity=Severity.WARNING if connected else None,
        stage=Stage.LIVE,
        subject=found.id,
        verified=not connected,
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
