"""What takes long is said: nobody is to wonder whether the launcher still works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

READING_CODE = "reading the job's code, all of its files"
"""What takes long of planning, and only where the source holds gigabytes."""

LONG_SECONDS = 2.0
"""After so long without a word people begin to wonder."""


@contextmanager
def announced(text: str, tell: Callable[[str], None], after: float = LONG_SECONDS) -> Iterator[None]:
    """Say what is being done where it takes longer than `after` seconds; nothing where it is quick.

    `tell` is called from a thread of its own.
    """
    timer = Timer(after, tell, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
