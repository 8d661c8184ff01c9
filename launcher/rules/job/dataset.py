"""The size of the training set against the way in which it reaches the hosts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.download import LARGE_DATASET_BYTES, disk_bytes
from launcher.rules.job.subject import JobSubject
from launcher.text.sizes import gigabytes


@finds(Stage.SPEC, storage.LARGE_DATASET_IN_FILE_MODE)
def large_data_is_not_downloaded(subject: JobSubject) -> Iterator[Finding]:
    """File mode downloads all of it before the script starts.

    Judged only where all inputs are read so: with others among them nobody knows which holds the data.
    """
    inputs, data = subject.job.inputs, subject.job.data
    downloaded = all(source.s3_uri is not None and source.mode == "File" for source in inputs.values())
    if data is None or data.size is None or not inputs or not downloaded:
        return
    sharded = all(source.distribution == "ShardedByS3Key" for source in inputs.values())
    size = data.size / (subject.job.resources.instance_count if sharded else 1)
    disk = disk_bytes(subject.facts, subject.job.resources.volume_size_gb)
    too_large = disk is not None and size > disk
    if size <= LARGE_DATASET_BYTES and not too_large:
        return
    fits = f"; it does not fit on its {gigabytes(disk)} of disk" if disk is not None and too_large else ""
    yield storage.LARGE_DATASET_IN_FILE_MODE.at(
        ("data", "size"),
        f"each host downloads {gigabytes(size)} from S3 before the script starts, at every start and "
        f"retry, and all hosts are billed meanwhile{fits}",
    )
