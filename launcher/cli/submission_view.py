"""How far a submission is: one line a step, and on a terminal its percentage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from launcher.cli.output import message

if TYPE_CHECKING:
    from launcher.backends.interface import Progress


def show_progress(progress: Progress) -> None:
    """Print a step on stderr when it is done; on a terminal also how far it is."""
    if not progress.total:
        message(progress.step)
        return
    share = f"{progress.step}: {100 * progress.done // progress.total}% of {size(progress.total)}"
    done = progress.done >= progress.total
    if sys.stderr.isatty():
        print(f"\r{share}", end="\n" if done else "", file=sys.stderr, flush=True)
    elif done:
        message(share)


def size(count: float) -> str:
    """Such as 512 B, 3.4 MB, 12 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
