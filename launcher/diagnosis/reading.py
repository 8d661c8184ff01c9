"""What was noted of all streams: what `LogReader` makes, and everything is judged by."""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.diagnosis.evidence.stacks import RankStack
from launcher.diagnosis.last_lines import Closing
from launcher.diagnosis.notes import Survived
from launcher.diagnosis.progress import Course
from launcher.diagnosis.rank_lines import Waiting
from launcher.diagnosis.ranks import RankState
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import Context
from launcher.diagnosis.windows import TAIL


@dataclass(slots=True)
class Reading:
    """What was noted: the first of each kind of sign by row, host and rank."""

    sightings: list[Sighting] = field(default_factory=list)
    contexts: list[tuple[Context, str, int, str]] = field(default_factory=list)
    """Each with its host, line number and text: the last one before the symptoms that it explains."""
    lengths: dict[str, int] = field(default_factory=dict)
    """How many lines the longest stream of each host had."""
    restarts: list[Sighting] = field(default_factory=list)
    """The starts of the ranks that failed and were followed by another one, in their order."""
    history: list[Survived] = field(default_factory=list)
    """What failed before the last incident of its stream."""
    courses: dict[str, Course] = field(default_factory=dict)
    """The step counters of each stream, near what failed and at its end."""
    diverged: frozenset[str] = frozenset()
    """The streams whose last losses are no numbers."""
    ended_well: dict[str, int] = field(default_factory=dict)
    """The streams that say that training came to its end, and the number of the line."""
    unfinished: tuple[str, ...] = ()
    """The streams in which the toolkit started the script, where it nowhere tells how that ended."""
    closing: Closing = field(default_factory=Closing)
    """How the streams end."""
    unread: tuple[str, ...] = ()
    """What seems to be evidence and could not be read."""
    stacks: tuple[RankStack, ...] = ()
    """Where ranks stood in their code when they printed it last, of those that printed nothing else since."""
    waiting: tuple[Waiting, ...] = ()
    """Where ranks stand in their collectives."""
    ranks: tuple[RankState, ...] = ()
    world_size: int = 0
    """How many ranks there are, 0 where no line tells."""
    success: bool = False
    failure: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether ranks were looked for in every line: of longer streams only the last lines tell them."""
        return max(self.lengths.values(), default=0) <= TAIL
