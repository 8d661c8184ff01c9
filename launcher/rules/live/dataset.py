"""Large data that is downloaded: what lies in S3, and what the file system says about it (FSX006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.account.facts import Prefix
from launcher.account.file_system import DataRepositoryAssociation
from launcher.failure_modes import storage
from launcher.failure_modes.model import Figure, Finding, Severity, Stage
from launcher.rules.download import LARGE_DATASET_BYTES, disk_bytes
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, S3Location, known
from launcher.text.sizes import gigabytes, size_in_words

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
            yield _finding(
                place,
                f"{place.uri} holds {at_least}{gigabytes(size)} for each host "
                f"({at_least}{listed.objects:,} objects){fits}",
            )
        elif listed.more and listed.size_bytes < SMALL_OBJECT_BYTES * listed.objects:
            yield _finding(
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
        yield _finding(
            place,
            f"{place.uri} is linked to {link.path} on the file system, and is downloaded all the same",
            f"Read it from there: `{'.'.join(place.path)}: {{lustre: {_path_on(link, place)}}}`.",
        )
    capacity, size = _capacity_bytes(subject), _stated_bytes(subject)
    unseen = [place for place in downloads if not _is_seen_to_be_large(subject, place)]
    if unseen and not links and capacity is not None and capacity < size:
        yield _finding(
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


def _finding(
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
