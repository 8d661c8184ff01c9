"""Clients for many calls at once: made one at a time, used by all threads."""

from __future__ import annotations

from threading import Lock
from typing import Any, Protocol

from launcher.aws.errors import aws_errors

CONNECT_TIMEOUT_SECONDS = 3
READ_TIMEOUT_SECONDS = 7
ATTEMPTS = 3
"""Enough for a call that was throttled; what hangs is cut by who asked."""

CONNECTIONS = 32
"""As many as one service is ever asked at once; botocore keeps ten, and drops the others after use."""


class Clients(Protocol):
    """Gives the client of a service in a region."""

    def __call__(self, service: str, region: str) -> Any:
        """The client, always the same; may be called by several threads at once."""


class SharedClients:
    """The user's AWS session for concurrent calls.

    A client may be used by many threads, but a session makes only one at a time (boto3 guide,
    resources and multithreading); each is made when first asked for, as the large ones take a tenth of
    a second, while the calls of the others are already under way.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._session: Any = None
        self._made: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str) -> Any:
        """The client of a service; raises UnusableSession where the configuration is wrong."""
        with self._lock:
            if (service, region) not in self._made:
                self._made[service, region] = self._make(service, region)
            return self._made[service, region]

    def _make(self, service: str, region: str) -> Any:
        from boto3.session import Session
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=CONNECTIONS,
        )
        with aws_errors(f"make a client for {service}"):
            if self._session is None:
                self._session = Session()
            return self._session.client(service, region_name=region, config=config)


def aws_client(
    service: str, region: str | None, *, connections: int = 10, attempts: int = 5, paced: bool = False
) -> Any:
    """A client of a service; raises AwsRefusal without a region.

    `connections` is how many calls may be under way at once, `attempts` how often a call is tried
    before its fault shows; a `paced` client makes fewer calls a second once it was throttled.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "adaptive" if paced else "standard", "max_attempts": attempts},
        max_pool_connections=connections,
        connect_timeout=10,
        read_timeout=60,
    )
    with aws_errors(f"make a client for {service}"):
        return boto3.client(service, region_name=region, config=config)
