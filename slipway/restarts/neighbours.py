"""Whether the ranks of another host have failed, while those of this one may still wait for them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from slipway.hosts.assembly import Assembly
from slipway.hosts.wire import FirstHostSilent
from slipway.processes import send

POLL_SECONDS = 0.5
"""Between two questions: the first host answers 128 a second of 64 hosts."""

PATIENCE_SECONDS = 5.0
"""So long torchrun has to end where a rank of its own has died too, so that its report says which."""


class Neighbours:
    """Asks beside the ranks, in a thread of its own, and ends them where another host's have failed.

    `ended` says whether it did: then how they ended says nothing of them. `heard` is whether there was a
    reason to.
    """

    def __init__(
        self,
        assembly: Assembly,
        topic: str,
        complete: Callable[[int], bool],
        *,
        poll: float = POLL_SECONDS,
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topic` is where hosts tell that their ranks have failed; `complete` whether all ranks below the
        command's process live. `poll` and `patience` are in seconds."""
        self.heard = self.ended = False
        self._assembly, self._topic, self._complete = assembly, topic, complete
        self._poll, self._patience, self._clock = poll, patience, clock
        self._until: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="neighbours", daemon=True)

    def start(self) -> None:
        """Ask from now on; where a host is alone there is nobody to ask."""
        if len(self._assembly.hosts) > 1:
            self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def end_with_them(self, command: int) -> None:
        """Called while the command runs: kill it where others have failed and it would only wait."""
        if not self.heard or self.ended:
            return
        now = self._clock()
        self._until = self._until or now + self._patience
        if now >= self._until or self._complete(command):
            self.ended = True
            send(command, signal.SIGKILL)

    def _ask(self) -> None:
        while not self.heard and not self._closed.wait(self._poll):
            try:
                self.heard = bool(self._assembly.read(self._topic))
            except FirstHostSilent:
                # Without it nobody can start again, and its ranks have most likely gone with it.
                self.heard = True
