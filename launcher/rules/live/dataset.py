"""Large data that is downloaded although it is, or does not fit, on the file system (FSX006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.account.file_system import Association
from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Stage
from launcher.rules.live.rule import live_rule
from launcher.rules.live.subject import LiveSubject, Place, known

LARGE_DATASET_BYTES = 500 * 1000**3
"""As in the rule on the job file: more than this is long to download at every start and retry."""


@live_rule(storage.LARGE_DATASET_IN_FILE_MODE, "file_system", "associations")
def large_data_is_mounted(subject: LiveSubject) -> Iterator[Finding]:
    """A job that has both a file system and downloads: what only the account tells about them.

    The job file alone does not tell which of its inputs holds the data. Here, either a download is the
    very prefix that the file system is linked to, or the data is larger than the file system.
    """
    data, downloads = subject.job.data, subject.downloads
    if data is None or data.size is None or data.size <= LARGE_DATASET_BYTES or not downloads:
        return
    links = known(subject.account.associations) or ()
    linked = [(place, link) for place in downloads if (link := _link_of(place, links)) is not None]
    for place, link in linked:
        yield _finding(
            subject,
            place,
            f"{place.uri} is linked to {link.path} on the file system, and is downloaded all the same",
            f"Read it from there: `{'.'.join(place.path)}: {{lustre: {_path_on(link, place)}}}`.",
        )
    capacity = _capacity_bytes(subject)
    if not linked and capacity is not None and capacity < data.size:
        yield _finding(
            subject,
            downloads[0],
            f"the data ({data.size / 1e9:,.0f} GB) is larger than the file system "
            f"({capacity / 1e9:,.0f} GB), so it is in what is downloaded "
            f"({', '.join(place.what for place in downloads)})",
        )


def _link_of(place: Place, links: Sequence[Association]) -> Association | None:
    return next((each for each in links if _folder(place.uri).startswith(_folder(each.s3_uri))), None)


def _path_on(link: Association, place: Place) -> str:
    below = _folder(place.uri).removeprefix(_folder(link.s3_uri))
    return f"{link.path.rstrip('/')}/{below}".rstrip("/") or "/"


def _folder(uri: str) -> str:
    return f"{uri.rstrip('/')}/"


def _capacity_bytes(subject: LiveSubject) -> int | None:
    found = known(subject.account.file_system)
    return None if found is None or found.capacity_gib is None else found.capacity_gib * 2**30


def _finding(subject: LiveSubject, place: Place, message: str, remedy: str | None = None) -> Finding:
    return storage.LARGE_DATASET_IN_FILE_MODE.finding(
        Stage.LIVE,
        f"{message}: every host downloads it before the script starts, at every start and retry, and all "
        "are billed meanwhile",
        remedy=remedy,
        location=subject.locate(*place.path),
        subject=place.uri,
    )
