"""What a piece of evidence says: of which ranks, which signs of failures, and how many ranks there are."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.diagnosis.evidence.recordings import Recording
from launcher.diagnosis.evidence.stacks import RankStack
from launcher.diagnosis.ranks import RankState
from launcher.diagnosis.sighting import Sighting


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """What was read of one file, or of all files of a job put together.

    `rows` are what is known of ranks, `sightings` what points at a failure, `world_size` how many ranks the
    job has; None is what nothing tells. `recordings` and `stacks` are what can only be judged beside those of
    the other ranks (see `found.together`). `of_hosts` is what a host's own records say, of any day (see
    `kernel_log.timely`). `unread` says what could not be read, and why; `has_lines` that
    the file is to be read as a log as well.
    """

    rows: tuple[RankState, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    world_size: int | None = None
    recordings: tuple[Recording, ...] = ()
    stacks: tuple[RankStack, ...] = ()
    of_hosts: tuple[Sighting, ...] = ()
    unread: tuple[str, ...] = ()
    has_lines: bool = False
