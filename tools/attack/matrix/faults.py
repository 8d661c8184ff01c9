"""The faults of the matrix: each as the service that it meets would tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.emulator import faults
from tests.emulator.faults import Fault

_IN_THE_WORDS_OF: Mapping[str, Mapping[str, Fault]] = {
    "throttled": {
        "rest-xml": faults.SLOW_DOWN,
        "query": replace(faults.THROTTLED, code="Throttling"),
        "ec2": replace(faults.SLOW_DOWN, code="RequestLimitExceeded"),
    },
    "expired token": {
        "rest-xml": faults.EXPIRED_S3,
        "query": replace(faults.EXPIRED_S3, status=403),
        "ec2": replace(faults.EXPIRED_S3, code="RequestExpired"),
    },
    "denied": {
        "rest-xml": faults.DENIED_S3,
        "query": faults.DENIED_S3,
        "ec2": replace(faults.DENIED_S3, code="UnauthorizedOperation"),
    },
    "clock skew": {
        "rest-xml": faults.SKEWED_S3,
        "query": replace(faults.SKEWED, code="SignatureDoesNotMatch"),
        "ec2": replace(faults.SKEWED_S3, code="RequestExpired"),
    },
}
"""Where a service has other codes for it than those of the JSON protocols, by botocore's protocol."""

_NOT_EVERYWHERE = (faults.SLOW_DOWN, faults.EXPIRED_S3, faults.DENIED_S3, faults.SKEWED_S3, faults.CONFLICT)
"""What one service alone tells: others' words for what is there already, and an answer to a write."""

FAULTS: tuple[Fault, ...] = tuple(
    each for each in vars(faults).values() if isinstance(each, Fault) and each not in _NOT_EVERYWHERE
)


def as_told_by(protocol: str, fault: Fault) -> Fault:
    """The fault in the codes of a service that speaks this protocol."""
    return _IN_THE_WORDS_OF.get(fault.name, {}).get(protocol, fault)
