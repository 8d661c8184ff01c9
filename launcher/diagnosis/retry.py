"""Whether it helps to run a failed job again, by the failure mode."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Retry(StrEnum):
    """What to do with the job as it is."""

    NEVER = "never"
    """It would fail again: something must be changed first."""
    SAME = "same"
    """The failure was passing: the same job again."""
    OTHER_HOSTS = "other-hosts"
    """The hosts are at fault: a new job, which gets new hosts, not the same warm pool."""
    LATER = "later"
    """AWS could not give what was asked for; wait before submitting again."""


RETRIES: Final[Mapping[str, Retry]] = MappingProxyType(
    {
        "CAP001": Retry.LATER,
        "HW001": Retry.OTHER_HOSTS,
        "HW002": Retry.OTHER_HOSTS,
        "MEM003": Retry.OTHER_HOSTS,
        # Without another cause in reach, a lost connection is a lost host.
        "NCCL006": Retry.OTHER_HOSTS,
        # A host that came too late, a port still held: both are of the moment.
        "NCCL008": Retry.SAME,
        "NCCL009": Retry.SAME,
        # SageMaker's internal errors: what its own RetryStrategy repeats.
        "CKPT004": Retry.SAME,
    }
)
"""The modes after which running again can help; all others are permanent until something is changed."""


def retry_after(code: str | None) -> Retry:
    """Whether to run again after this root cause; never where none is known."""
    return RETRIES.get(code or "", Retry.NEVER)
