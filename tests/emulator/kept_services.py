"""What moto keeps of its services at one moment, to start from again."""

from __future__ import annotations

import copyreg
import pickle
from collections import defaultdict
from io import BytesIO
from threading import RLock
from types import FunctionType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from moto.core.base_backend import BackendDict


class KeptServices:
    """The services that are in use, with all that is in them, as it is when this is made.

    Nothing that happens to them afterwards is in what `restore` brings back. Use both inside `mock_aws`.
    """

    def __init__(self) -> None:
        self._services = list(BackendDict._instances)
        kept = BytesIO()
        writer = _Writer(kept)
        writer.dump([(vars(service), dict(service)) for service in self._services])
        self._kept, self._unchanging = kept.getvalue(), writer.unchanging

    def restore(self) -> None:
        """Have the services hold what they held then, and nothing else."""
        held = _Reader(BytesIO(self._kept), self._unchanging).load()
        for service, (attributes, accounts) in zip(self._services, held, strict=True):
            vars(service).update(attributes)
            service.clear()
            service.update(accounts)
            if service not in BackendDict._instances:
                BackendDict._instances.append(service)  # by which moto knows what to empty at the end


class _Writer(pickle.Pickler):
    """Writes a lock as a new one: nobody holds it while no call is under way.

    A key, and a function without a name of its own, such as what makes a dictionary's new entries, stay the
    same ones in every copy; they hold nothing that changes. A dictionary of that kind whose class takes other
    arguments than that function is filled without a call of its `__init__`.
    """

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.unchanging: list[Any] = []

    def persistent_id(self, written: Any) -> int | None:
        nameless = isinstance(written, FunctionType) and written.__name__ == "<lambda>"
        if not ((nameless and not written.__closure__) or isinstance(written, RSAPrivateKey)):
            return None
        self.unchanging.append(written)
        return len(self.unchanging) - 1

    def reducer_override(self, written: Any) -> Any:
        if isinstance(written, type(RLock())):
            return RLock, ()
        if isinstance(written, defaultdict) and type(written) is not defaultdict:
            state = vars(written), {"default_factory": written.default_factory}
            return copyreg.__newobj__, (type(written),), state, None, iter(dict.items(written))
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads what a `_Writer` wrote, which met these that do not change."""

    def __init__(self, file: BytesIO, unchanging: list[Any]) -> None:
        super().__init__(file)
        self._unchanging = unchanging

    def persistent_load(self, number: int) -> Any:
        return self._unchanging[number]
