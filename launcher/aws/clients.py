"""The AWS clients of one command: one session, and each client made once, for all threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from botocore.exceptions import BotoCoreError, CredentialRetrievalError, InvalidConfigError
from botocore.loaders import Loader, instance_cache

from launcher.aws.errors import aws_errors
from launcher.aws.session import Caller, fetch_caller
from launcher.frozen import frozen

_TRIPPED = (AttributeError, KeyError, OSError, TypeError, ValueError)


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Around the making of a client, which reads nothing but configuration; raises InvalidConfigError."""
    try:
        yield
    except BotoCoreError:
        raise
    except _TRIPPED as error:
        raise InvalidConfigError(error_msg=_words(error)) from error


def unreadable_credentials(exception: Exception, **_: Any) -> None:
    """A handler of botocore's `after-call-error`; raises CredentialRetrievalError.

    Of what goes on within a call, only the look for credentials raises errors that are not botocore's own:
    those of sending are wrapped by its HTTP session, those of the answer are OddAnswer.
    """
    if isinstance(exception, _TRIPPED) and not isinstance(exception, BotoCoreError):
        raise CredentialRetrievalError(
            provider="the AWS configuration", error_msg=_words(exception)
        ) from exception


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


class ServiceModels(Loader):  # type: ignore[misc]
    """botocore's loader, which does not look through four hundred folders to know one.

    The component `data_loader` of a botocore session. Before each kind of file that botocore reads of a
    service, its own loader looks into the folders of all services for one of that kind, and so do all
    threads that want a paginator at once. The folders' names are enough: where a known service has no such
    file, its search for the newest version says so.
    """

    @instance_cache  # type: ignore[untyped-decorator]
    def list_available_services(self, type_name: str) -> list[str]:
        """The names of all services, also of those without a file of this kind."""
        folders = [folder for folder in map(Path, self.search_paths) if folder.is_dir()]
        return sorted({service.name for folder in folders for service in folder.iterdir()})


@frozen
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

    session = get_session()
    paths = session.get_component("data_loader").search_paths
    session.register_component("data_loader", ServiceModels(paths, include_default_search_paths=False))
    session.register_component("response_parser_factory", CheckedParsers())
    return Session(botocore_session=session)
