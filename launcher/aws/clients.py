"""The AWS clients of one command: one session, and each client made once, for all threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.aws.session import Caller, fetch_caller


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How calls are made.

    The timeouts are seconds. `attempts` counts the first try as well; `connections` is how many calls of one
    client may be under way at once. A `paced` client makes fewer calls a second once it was throttled.
    """

    connect_timeout: int
    read_timeout: int
    attempts: int
    connections: int = 10
    paced: bool = False


PATIENT = CallSettings(connect_timeout=10, read_timeout=60, attempts=6)
"""For what must be done, such as creating a job: a fault shows only after a minute and some tries."""

BRISK = CallSettings(connect_timeout=3, read_timeout=7, attempts=3, connections=32)
"""For many looks at once: enough tries for a call that was throttled, while what hangs is cut by who asked.

As many connections as one service is ever asked at once; botocore keeps ten, and drops the others after use.
"""

FOLLOWING = CallSettings(connect_timeout=10, read_timeout=60, attempts=4, paced=True)
"""For a job's logs: following does its own waiting, so a fault may show early; its calls are many.

Ten connections, for as many log streams that are read at once: about as many calls as the quota of
CloudWatch Logs allows in a second.
"""


class Clients:
    """The user's AWS session and its clients.

    One for each command, handed down to whoever calls AWS: credentials are looked for once, a service's
    model is read once. `brisk` ones, for a command that only looks, wait for no answer longer than BRISK
    does. A client may be used by many threads, but a session makes only one at a time (boto3
    guide, resources and multithreading); each is made when first asked for, as the large ones take a tenth
    of a second, while the calls of the others are already under way.
    """

    def __init__(self, *, brisk: bool = False) -> None:
        self._brisk = brisk
        self._lock = Lock()
        self._session: Any = None
        self._made: dict[tuple[str, str | None, CallSettings], Any] = {}
        self._caller: Caller | None = None

    def __call__(self, service: str, region: str | None, settings: CallSettings = PATIENT) -> Any:
        """The client of a service, the same for the same settings; may be called by several threads at once.

        Raises UnusableSession where the configuration is wrong or no region is known.
        """
        if self._brisk:
            settings = replace(BRISK, connections=settings.connections)
        key = (service, region, settings)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(service, region, settings)
            return self._made[key]

    def caller(self, region: str | None) -> Caller:
        """Who the credentials belong to; STS is asked once.

        Raises AwsRefusal without usable credentials, or where AWS cannot be reached.
        """
        if self._caller is None:
            self._caller = fetch_caller(self("sts", region, BRISK))
        return self._caller

    def renew(self) -> None:
        """Look for credentials again: those in use may have expired.

        A session keeps those that it found first, also when the user has signed in again since. Clients that
        were given out before keep the old ones.
        """
        with self._lock:
            self._session = self._caller = None
            self._made.clear()

    def _make(self, service: str, region: str | None, settings: CallSettings) -> Any:
        from botocore.config import Config

        from launcher.aws.configuration import configuration_errors, unreadable_credentials

        config = Config(
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
            retries={
                "mode": "adaptive" if settings.paced else "standard",
                "total_max_attempts": settings.attempts,
            },
            max_pool_connections=settings.connections,
        )
        with aws_errors(f"make a client for {service}"), configuration_errors():
            if self._session is None:
                self._session = open_session()
            client = self._session.client(service, region_name=region, config=config)
        client.meta.events.register("after-call-error", unreadable_credentials)
        return client


def open_session() -> Any:
    """A session of the user's configuration, whose clients take no answer that AWS would not give."""
    from boto3.session import Session
    from botocore.session import get_session

    from launcher.aws.odd_answers import CheckedParsers
    from launcher.aws.service_models import ServiceModels

    session = get_session()
    paths = session.get_component("data_loader").search_paths
    session.register_component("data_loader", ServiceModels(paths, include_default_search_paths=False))
    session.register_component("response_parser_factory", CheckedParsers())
    return Session(botocore_session=session)
