"""What a notebook is told while something takes long, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from launcher.account.file_system import FileSystem
from launcher.backends.interface import Progress
from launcher.text.controls import without_controls
from launcher.text.sizes import size_in_words

LONG_SECONDS = 2.0
"""After so long without a word people begin to wonder."""

_LINE_EVERY_SECONDS = 10.0


def tell(text: str) -> None:
    """Say it in a line of stderr, which notebooks show below the cell."""
    print(without_controls(text), file=sys.stderr, flush=True)


class Telling:
    """Tells how far a look into the account and a submission are, from the third second on, now and then.

    News, such as the name under which a job was submitted, are told at once.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, tell: Callable[[str], None] = tell
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._next = clock() + LONG_SECONDS

    def __enter__(self) -> Telling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    def reading(self, read: int, total: int) -> None:
        """So many bytes of the code have been read."""
        share = 100 * read // total if total else 100
        self._now_and_then(f"reading {size_in_words(total)} of code: {share}%")

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """AWS has given so many of the answers that were asked for."""
        waiting = f", waiting for {waiting_for}" if waiting_for else ""
        self._now_and_then(f"looking at the account: {answered} of {asked} answers{waiting}")

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """The file system is still being created, after a wait of so many seconds."""
        self._now_and_then(
            f"{file_system.id} is {file_system.lifecycle}, waiting for AVAILABLE ({seconds / 60:.0f} min)"
        )

    def submission(self, progress: Progress) -> None:
        """A submission has come so far."""
        if not progress.total:
            self._tell(progress.step)
            return
        share = 100 * progress.done // progress.total
        self._now_and_then(f"{progress.step}: {share}% of {size_in_words(progress.total)}")

    def _now_and_then(self, text: str) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LINE_EVERY_SECONDS
            self._tell(text)
