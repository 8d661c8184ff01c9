"""What AWS has announced of the services that failure modes are about: dated, and shown beside them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement: a sentence, since when it holds, and where it was read and when."""

    text: str
    since: datetime.date | None
    source: str
    as_of: datetime.date


DEBUGGER_CLOSED: Final = Notice(
    text="AWS closed SageMaker Debugger to new customers on 2026-07-30; who used it before can go on",
    since=datetime.date(2026, 7, 30),
    source="Amazon SageMaker developer guide: debugger-createtrainingjob-api",
    as_of=datetime.date(2026, 11, 22),
)

TRAINING_COMPILER_FROZEN: Final = Notice(
    text="AWS makes no new releases and no patches of SageMaker Training Compiler any more",
    since=None,
    source="Amazon SageMaker developer guide: training-compiler-support",
    as_of=datetime.date(2026, 11, 22),
)
