"""Unique names: a training job's name is its identity, its prefix and its idempotency key."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_LENGTH = 10
_RANDOM_LENGTH = 7

UNIQUE_LENGTH = _TIME_LENGTH + _RANDOM_LENGTH
"""Characters of a unique part."""

MAX_TUNING_JOB_NAME_LENGTH = 32
"""CreateHyperParameterTuningJob, HyperParameterTuningJobName (botocore service model)."""


def unique_part() -> str:
    """17 characters: the time in milliseconds, then 35 random bits, in Crockford's base 32.

    Parts sort by time, hold only lower-case letters and digits, and two of the same millisecond
    collide once in 34 billion.
    """
    milliseconds = time.time_ns() // 1_000_000
    # Of forty random bits _base32 takes the lowest 35. The module `secrets` would bring three others along.
    random = int.from_bytes(os.urandom(5))
    return _base32(milliseconds, _TIME_LENGTH) + _base32(random, _RANDOM_LENGTH)


def part_of(digest: bytes) -> str:
    """The unique part that stands for a digest of at least 11 bytes: the same for the same digest.

    85 of its bits; two of a million parts are alike once in 77 trillion.
    """
    return _base32(int.from_bytes(digest), UNIQUE_LENGTH)


def job_name(base: str, unique: str) -> str:
    """The training job's name: the user's base and the unique part.

    A base of `MAX_NAME_LENGTH` makes the 63 characters that CreateTrainingJob takes (botocore service
    model, TrainingJobName).
    """
    return f"{base}-{unique}"


def _base32(number: int, length: int) -> str:
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(length)))
