"""What moto keeps of its services at one moment, to start from again."""

from __future__ import annotations

import pickle
from io import BytesIO
from threading import RLock
from typing import Any

from moto.core.base_backend import BackendDict


class KeptServices:
    """The services that are in use, with all that is in them, as it is when this is made.

    Nothing that happens to them afterwards is in what `restore` brings back. Use both inside `mock_aws`.
    """

    def __init__(self) -> None:
        self._services = list(BackendDict._instances)
        kept = BytesIO()
        _WithoutLocks(kept).dump([(vars(service), dict(service)) for service in self._services])
        self._kept = kept.getvalue()

    def restore(self) -> None:
        """Have the services hold what they held then, and nothing else."""
        for service, (attributes, accounts) in zip(self._services, pickle.loads(self._kept), strict=True):
            vars(service).update(attributes)
            service.clear()
            service.update(accounts)
            if service not in BackendDict._instances:
                BackendDict._instances.append(service)  # by which moto knows what to empty at the end


class _WithoutLocks(pickle.Pickler):
    """Writes a lock as a new one: nobody holds it while no call is under way."""

    def reducer_override(self, written: Any) -> Any:
        return (RLock, ()) if isinstance(written, type(RLock())) else NotImplemented
