"""The storage of the job in the account: buckets, checkpoints, data to download, and the Lustre file
system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.account.facts import DataRepositoryAssociation, FileSystem, Prefix, Unverified
from launcher.cluster.traffic import (
    Direction,
    Passage,
    PortRange,
    SecurityGroup,
    lustre_ports,
    ports_in_words,
)
from launcher.failure_modes import checkpoints, storage
from launcher.failure_modes.model import Figure, Finding, Severity, Stage
from launcher.frozen import frozen
from launcher.planning.request_view import FileSystemChannel
from launcher.rules.live.subject import LiveSubject, S3Location, could_not_verify, known, live_rule
from launcher.rules.shared_facts import LARGE_DATASET_BYTES, disk_bytes
from launcher.text.values import gigabytes, size_in_words

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


@live_rule(storage.S3_ACCESS_DENIED, "file_system", "associations")
def mounted_links_work(subject: LiveSubject) -> Iterator[Finding]:
    """FSx says itself which links do not work, as where a bucket or the key of one keeps it out.

    No policy is read for it: those of keys delegate to others, and launchers need no right to see them.
    Source: FSx for Lustre guide, dra-lifecycles and s3-server-side-encryption-support.
    """
    found = known(subject.account.file_system)
    for link in _links(subject):
        if found is None or link.lifecycle not in _BROKEN:
            continue
        folder = f"/{found.mount_name}/{link.path.strip('/')}"
        mount = next((each for each in subject.mounts if _relation(each.directory, folder)), None)
        if mount is not None:
            reason = f" ({link.failure})" if link.failure else ""
            yield storage.S3_ACCESS_DENIED.at(
                ("inputs", mount.name),
                f"the link of {link.path} on {found.id} to {link.s3_uri} is {link.lifecycle}{reason}: what "
                "is new in S3 does not appear there, and files that FSx has not read yet may fail to open",
                severity=Severity.WARNING,
                remedy=f"Let FSx's role AWSServiceRoleForFSxS3Access_{found.id} in, by the policies of the "
                "bucket and of the KMS key that encrypts it, and leave FSx's event notifications on the "
                f"bucket. {_BROKEN[link.lifecycle]}",
                stage=Stage.LIVE,
                subject=link.id,
            )


_BROKEN = {
    "MISCONFIGURED": "FSx then takes the link up again by itself.",
    "FAILED": "Then delete the link and make it again: one that failed does not recover.",
}
"""The lifecycles of links that do not work (FSx API reference, DataRepositoryAssociation), and what is left
to do."""


def is_about_data(action: str) -> bool:
    """Whether an IAM action is about data: objects, buckets and the keys that encrypt them."""
    return action.partition(":")[0] in _DATA_SERVICES


def _used_for(uses: Sequence[S3Location]) -> str:
    return f" ({', '.join(dict.fromkeys(place.what for place in uses))})" if uses else ""


def _unusable(name: str, uses: Sequence[S3Location], message: str) -> Finding:
    path = uses[0].path if uses else ()
    return storage.BUCKET_UNUSABLE.at(path, message, stage=Stage.LIVE, subject=name)


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


FIGURES = (
    Figure(
        "150", "MB, of our own: at 85 MB/s two seconds, beside which 0.2 s to the first byte are little", None
    ),
)

SMALL_OBJECT_BYTES = 1000**2
"""Below this mean, fetching an object takes longer than its bytes: S3 begins to answer after 100 to 200 ms
and sends about 85 MB/s to one request (S3 user guide, optimizing-performance). SageMaker's guide
(model-access-training-data-best-practices) already advises to put files under 50 MB together."""


@live_rule(storage.LARGE_DATASET_IN_FILE_MODE)
def downloads_are_small(subject: LiveSubject) -> Iterator[Finding]:
    """What really lies at the inputs in File mode, by their listing.

    One call lists a thousand objects: where there are more, what was listed is a lower bound.
    """
    volume = subject.request.volume_size_gb if subject.job is None else subject.job.resources.volume_size_gb
    disk = None if volume is None else disk_bytes(subject.facts, volume)
    for place in subject.downloads:
        listed = _listed(subject, place)
        if listed is None or _link_of(place, _links(subject)) is not None:
            continue
        size = _bytes_per_host(subject, place, listed)
        at_least = "at least " if listed.more else ""
        too_large = disk is not None and size > disk
        if size > LARGE_DATASET_BYTES or too_large:
            fits = f", which does not fit on its {gigabytes(disk)} of disk" if disk and too_large else ""
            yield _large_dataset(
                place,
                f"{place.uri} holds {at_least}{gigabytes(size)} for each host "
                f"({at_least}{listed.objects:,} objects){fits}",
            )
        elif listed.more and listed.size_bytes < SMALL_OBJECT_BYTES * listed.objects:
            yield _large_dataset(
                place,
                f"{place.uri} holds more than {listed.objects:,} objects, and the first have "
                f"{size_in_words(listed.size_bytes / listed.objects)} on average, so their number decides "
                "how long the download takes",
                "Put the files together into fewer and larger ones (tar, TFRecord, Parquet; 150 MB or so), "
                "or read them from the file system.",
                Severity.INFO,
            )


@live_rule(storage.LARGE_DATASET_IN_FILE_MODE, "file_system", "associations")
def large_data_is_mounted(subject: LiveSubject) -> Iterator[Finding]:
    """A job that has both a file system and downloads: what only the account says about them.

    Either a download is the very prefix that the file system is linked to, or the data is larger than the
    file system, so it cannot be what is mounted. The size is that of the listing where that is complete,
    else what the job file says.
    """
    downloads = [place for place in subject.downloads if _is_large(subject, place)]
    links = [(place, link) for place in downloads if (link := _link_of(place, _links(subject))) is not None]
    for place, link in links:
        yield _large_dataset(
            place,
            f"{place.uri} is linked to {link.path} on the file system, and is downloaded all the same",
            f"Read it from there: `{'.'.join(place.path)}: {{lustre: {_path_on(link, place)}}}`.",
        )
    capacity, size = _capacity_bytes(subject), _stated_bytes(subject)
    unseen = [place for place in downloads if not _is_seen_to_be_large(subject, place)]
    if unseen and not links and capacity is not None and capacity < size:
        yield _large_dataset(
            unseen[0],
            f"the data ({gigabytes(size)}) is larger than the file system ({gigabytes(capacity)}), so "
            f"it is in what is downloaded ({', '.join(place.what for place in unseen)})",
        )


def _is_large(subject: LiveSubject, place: S3Location) -> bool:
    """By what was listed; where that is only a part, or could not be had, by what the job file says."""
    listed = _listed(subject, place)
    if _is_seen_to_be_large(subject, place):
        return True
    return (listed is None or listed.more) and _stated_bytes(subject) > LARGE_DATASET_BYTES


def _is_seen_to_be_large(subject: LiveSubject, place: S3Location) -> bool:
    listed = _listed(subject, place)
    return listed is not None and _bytes_per_host(subject, place, listed) > LARGE_DATASET_BYTES


def _stated_bytes(subject: LiveSubject) -> int:
    data = None if subject.job is None else subject.job.data
    return 0 if data is None or data.size is None else data.size


def _listed(subject: LiveSubject, place: S3Location) -> Prefix | None:
    return known(subject.account.prefixes.get(place.uri))


def _bytes_per_host(subject: LiveSubject, place: S3Location, listed: Prefix) -> float:
    source = None if subject.job is None else subject.job.inputs.get(place.path[-1])
    sharded = source is not None and source.distribution == "ShardedByS3Key"
    return listed.size_bytes / (subject.hosts if sharded else 1)


def _links(subject: LiveSubject) -> Sequence[DataRepositoryAssociation]:
    return known(subject.account.associations) or ()


def _link_of(
    place: S3Location, links: Sequence[DataRepositoryAssociation]
) -> DataRepositoryAssociation | None:
    return next((each for each in links if _folder(place.uri).startswith(_folder(each.s3_uri))), None)


def _path_on(link: DataRepositoryAssociation, place: S3Location) -> str:
    below = _folder(place.uri).removeprefix(_folder(link.s3_uri))
    return f"{link.path.rstrip('/')}/{below}".rstrip("/") or "/"


def _folder(uri: str) -> str:
    return f"{uri.rstrip('/')}/"


def _capacity_bytes(subject: LiveSubject) -> int | None:
    found = known(subject.account.file_system)
    return None if found is None or found.capacity_gib is None else found.capacity_gib * 2**30


def _large_dataset(
    place: S3Location,
    message: str,
    remedy: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    return storage.LARGE_DATASET_IN_FILE_MODE.at(
        place.path,
        f"{message}: every host downloads it before the script starts, at every start and retry, and all "
        "are billed meanwhile",
        stage=Stage.LIVE,
        remedy=remedy,
        severity=severity,
        subject=place.uri,
    )


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


@frozen
class Side:
    """One end of the traffic in one direction: the groups there, and the groups at the other end."""

    groups: tuple[SecurityGroup, ...]
    direction: Direction
    peers: tuple[SecurityGroup, ...]
    peer_ranges: tuple[str, ...] | None
    who: str

    def ports(self, judged: Passage) -> list[PortRange]:
        """The ranges of Lustre's ports that are judged so."""
        return lustre_ports(
            judged,
            self.groups,
            self.direction,
            peer_groups=[each.id for each in self.peers],
            peer_ranges=self.peer_ranges,
        )


@live_rule(storage.LUSTRE_PORTS_CLOSED, "file_system", "file_system_groups", "groups", "subnets")
def lustre_ports_are_open(subject: LiveSubject) -> Iterator[Finding]:
    """All of the ports pass out of one side and into the other, both ways: servers call clients as well."""
    for side in sides(subject):
        closed, unknown = side.ports(Passage.CLOSED), side.ports(Passage.UNKNOWN)
        if closed:
            yield _ports_closed(side, closed)
        elif unknown:
            yield _unknown(side, unknown)


def sides(subject: LiveSubject) -> list[Side]:
    """Both ends in both directions; none where the groups of one end are not known.

    Nor where they are of different VPCs, which is a finding of its own.
    """
    hosts, servers = subject.network.groups, subject.file_system_groups
    file_system = known(subject.account.file_system)
    if not hosts or not servers or file_system is None:
        return []
    home = file_system.vpc_id
    if home is not None and any(subnet.vpc_id != home for subnet in subject.network.subnets):
        return []
    subnets = {each.id: each.cidr for each in subject.network.subnets}
    own = subnets.get(file_system.subnet_id or "")
    of_servers, of_hosts = (None if own is None else (own,)), tuple(subnets.values())
    return [
        Side(hosts, "egress", servers, of_servers, "the hosts"),
        Side(servers, "ingress", hosts, of_hosts, "the file system"),
        Side(servers, "egress", hosts, of_hosts, "the file system"),
        Side(hosts, "ingress", servers, of_servers, "the hosts"),
    ]


def _ports_closed(side: Side, closed: list[PortRange]) -> Finding:
    return storage.LUSTRE_PORTS_CLOSED.at(
        ("network", "security_group_ids"),
        f"{_name_ports(side, closed)} do not pass ({_held(side)}): the mount would hang or time out, on "
        "billed hosts",
        stage=Stage.LIVE,
        subject=side.groups[0].id,
    )


def _unknown(side: Side, unknown: list[PortRange]) -> Finding:
    return storage.LUSTRE_PORTS_CLOSED.at(
        ("network", "security_group_ids"),
        f"could not verify that {_name_ports(side, unknown)} pass ({_held(side)}): it depends on prefix "
        "lists or on ranges that hold only a part of the addresses",
        remedy="Check whether they hold the addresses of both sides, or add rules that name the groups.",
        severity=Severity.WARNING,
        stage=Stage.LIVE,
        subject=side.groups[0].id,
        verified=False,
    )


def _name_ports(side: Side, ports: list[PortRange]) -> str:
    listed = " and ".join(map(ports_in_words, ports))
    peers = ", ".join(each.id for each in side.peers)
    way = f"into {side.who} from {peers}" if side.direction == "ingress" else f"out of {side.who} to {peers}"
    return f"{listed} {way}"


def _held(side: Side) -> str:
    return ", ".join(
        f"{each.id} has {side.direction} {each.in_words(side.direction)}" for each in side.groups
    )
