"""Of what a line speaks that the reader acts on, beside what the rows of the signatures know.

Few lines speak of anything, and those of a storm of the same things, so what a line may speak of is
remembered by its shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from launcher.diagnosis import (
    analysis_lines,
    attempts,
    claimed_ranks,
    downloads,
    rank_lines,
    rendezvous_store,
    stack_lines,
    torchrun_table,
)
from launcher.diagnosis import world_size as world_sizes
from launcher.diagnosis.known_shapes import shape_of
from launcher.diagnosis.signatures.table import CONTEXTS
from launcher.text.line_length import LONGEST_LINE


class Topic(Enum):
    """What a line speaks of."""

    BOOTS_RESTART = auto()
    ATTEMPT = auto()
    WORLD_SIZE = auto()
    CLAIMED_RANK = auto()
    DOWNLOAD = auto()
    RANKS = auto()
    STACK = auto()
    SUCCESS = auto()
    FAILURE = auto()
    TORCHRUN_TABLE = auto()
    STORE_BARRIER = auto()
    ANALYSIS = auto()
    IGNORED_EXCEPTION = auto()
    EXCEPTION_IN_THREAD = auto()
    CONTEXT = auto()


LITERALS_OF: Final[Mapping[Topic, tuple[str, ...]]] = {
    Topic.BOOTS_RESTART: ("slipway: restart ",),
    Topic.ATTEMPT: attempts.LITERALS,
    Topic.WORLD_SIZE: world_sizes.LITERALS,
    Topic.CLAIMED_RANK: claimed_ranks.LITERALS,
    Topic.DOWNLOAD: downloads.LITERALS,
    Topic.RANKS: (*rank_lines.LITERALS, *(part.lower() for part in rank_lines.OF_COLLECTIVES)),
    Topic.STACK: stack_lines.LITERALS,
    Topic.SUCCESS: ("reporting training success",),
    Topic.FAILURE: ("reporting training failure",),
    Topic.TORCHRUN_TABLE: (torchrun_table.TITLE,),
    Topic.STORE_BARRIER: (rendezvous_store.BARRIER,),
    Topic.ANALYSIS: analysis_lines.LITERALS,
    # How Python begins to tell of exceptions that harm nothing: in a destructor, or while a line is logged.
    # It prints three dashes, of which hyperscan would make an automaton of 25 MB.
    Topic.IGNORED_EXCEPTION: ("exception ignored", "-- logging error --"),
    Topic.EXCEPTION_IN_THREAD: ("exception in thread",),
    Topic.CONTEXT: tuple(context.literal for context in CONTEXTS),
}
"""The lower-case parts of lines by which they are known to speak of something."""

_SHAPES: Final = {
    topic: tuple(shape_of(literal.encode()) for literal in literals)
    for topic, literals in LITERALS_OF.items()
}


def topics_of(text: str) -> frozenset[Topic]:
    """What a line speaks of, by its text without prefixes."""
    lower = text.lower()
    may = topics_of_shape(shape_of(lower.encode())) if text.isascii() and len(text) <= LONGEST_LINE else Topic
    return frozenset(topic for topic in may if any(literal in lower for literal in LITERALS_OF[topic]))


@lru_cache(maxsize=1024)
def topics_of_shape(shape: bytes) -> tuple[Topic, ...]:
    """What lines of a shape, in lower case, may speak of, as some literals have digits."""
    return tuple(
        topic for topic, literals in _SHAPES.items() if any(literal in shape for literal in literals)
    )
