"""Whether every rank gets the same number of batches."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.degrees import data_parallel_size
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, data.UNEVEN_BATCHES)
def batches_are_even(subject: JobSubject) -> Iterator[Finding]:
    """Samples over ranks and batches: how many are left over, and what becomes of them.

    A DistributedSampler evens the ranks out by itself, so that no rank waits for another then.
    """
    given, ranks = subject.job.data, data_parallel_size(subject)
    if given is None or given.samples is None or ranks is None or ranks < 2:
        return
    samples, batch = given.samples, given.batch_size or 1
    if samples % (ranks * batch) == 0:
        return
    sampled = "DistributedSampler" in subject.names
    yield data.UNEVEN_BATCHES.at(
        ("data", "samples"),
        _with_sampler(samples, ranks, given.batch_size)
        if sampled
        else _without_sampler(samples, ranks, given.batch_size),
        severity=Severity.INFO if sampled else Severity.WARNING,
    )


@finds(Stage.SPEC, data.UNEVEN_BATCHES)
def objects_are_not_sharded_unevenly(subject: JobSubject) -> Iterator[Finding]:
    """ShardedByS3Key deals out objects, not samples; a sampler would divide what is left once more."""
    hosts = subject.job.resources.instance_count
    if hosts < 2:
        return
    sampled = "DistributedSampler" in subject.names
    for name, source in subject.job.inputs.items():
        if source.s3_uri is None or source.distribution != "ShardedByS3Key":
            continue
        consequence = (
            f"the script's DistributedSampler divides each host's part by all ranks again, so that at most "
            f"one sample in {hosts} is ever read, and hosts differ in their number of batches"
            if sampled
            else "ranks then get as many batches as their host's objects hold; those with fewer stop first, "
            "and the others wait for them until the timeout"
        )
        yield data.UNEVEN_BATCHES.at(
            ("inputs", name, "distribution"),
            f"the input {name} is ShardedByS3Key over {hosts} hosts: {consequence}",
            remedy="Use FullyReplicated (or FastFile) with a DistributedSampler, or a sampler over the ranks "
            "of the host alone with the number of batches cut to the smallest of all ranks.",
            severity=Severity.WARNING,
        )


def _with_sampler(samples: int, ranks: int, batch: int | None) -> str:
    dropped, share = samples % ranks, -(-samples // ranks)
    text = f"{samples:,} samples over {ranks} ranks are {share:,} each"
    if dropped:
        text += (
            f": the DistributedSampler repeats {ranks - dropped} to make them even, or leaves out {dropped} "
            "with its drop_last=True"
        )
    rest = share % batch if batch else 0
    if batch and rest:
        text += (
            f"; in batches of {batch} the last of {-(-share // batch):,} holds {rest}, and a DataLoader with "
            f"drop_last=True leaves out {rest * ranks} samples an epoch. No rank waits for another"
        )
    return text


def _without_sampler(samples: int, ranks: int, batch: int | None) -> str:
    step = ranks * (batch or 1)
    over = samples % step
    unit = f"{ranks} ranks x {batch} per batch" if batch else f"{ranks} ranks"
    return (
        f"{samples:,} samples are not a multiple of {step:,} ({unit}): {over:,} are left over, or "
        f"{step - over:,} must be repeated. The source has no DistributedSampler that does so; ranks with "
        "one batch more would wait for the others at the end of the epoch"
    )
