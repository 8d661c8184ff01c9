"""What AWS has announced of the services that failure modes are about: dated, and shown beside them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from launcher.failure_modes import sources
from launcher.failure_modes.sources import Source


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement: a sentence, since when it holds (None where nobody says), and where it was read."""

    text: str
    since: datetime.date | None
    source: Source


DEBUGGER_CLOSED: Final = Notice(
    text="AWS closed SageMaker Debugger to new customers on 2026-07-30; who used it before can go on",
    since=datetime.date(2026, 7, 30),
    source=sources.DEBUGGER_API_GUIDE,
)

TRAINING_COMPILER_FROZEN: Final = Notice(
    text="AWS no longer releases or patches SageMaker Training Compiler",
    since=None,
    source=sources.TRAINING_COMPILER_SUPPORT,
)
