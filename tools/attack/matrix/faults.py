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

FAULTS: tuple[Fault, ...] = (
    faults.THROTTLED,
    faults.LIMIT,
    faults.EXPIRED,
    faults.DENIED,
    faults.SKEWED,
    faults.INTERNAL,
    faults.EMPTY,
    faults.PORTAL,
    faults.PORTAL_XHTML,
    faults.CUT_JSON,
    faults.CUT_XML,
    faults.BAD_GZIP,
    faults.OTHER_JSON,
    faults.NO_OBJECT,
    faults.EMPTY_DONE,
    faults.BAD_GZIP_DONE,
    faults.PAGE_500,
    faults.PAGE_403,
    faults.PAGE_404,
    faults.REDIRECT,
    faults.RESET,
    faults.LOST,
    faults.HANG,
    faults.LOST_IN_TIME,
    faults.DRIP,
)


def as_told_by(protocol: str, fault: Fault) -> Fault:
    """The fault in the codes of a service that speaks this protocol."""
    return _IN_THE_WORDS_OF.get(fault.name, {}).get(protocol, fault)
